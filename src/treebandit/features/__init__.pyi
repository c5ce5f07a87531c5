from treebandit.features.flatten import flattened as flattened
