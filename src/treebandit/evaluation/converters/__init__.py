"""Other formats of decision logs, both ways: frames, Open Bandit CSV, Vowpal Wabbit's dsjson and --cb_adf text."""
