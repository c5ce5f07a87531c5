"""Calls of Azure's two Python packages against a service; run by their own interpreter: URL KEY."""

import json
import sys

from azure.ai.personalizer import PersonalizerAdministrationClient
from azure.ai.personalizer import PersonalizerClient as NewClient
from azure.cognitiveservices.personalizer import PersonalizerClient as OldClient
from azure.cognitiveservices.personalizer.models import ErrorResponseException, RankableAction, RankRequest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from msrest.authentication import CognitiveServicesCredentials

url, key = sys.argv[1:]
reply = {}

old = OldClient(url, CognitiveServicesCredentials(key))
actions = [
    RankableAction(
        id="pasta", features=[{"taste": "salty", "spice": "medium"}, {"nutrition": {"calories": 5}}]
    ),
    RankableAction(id="soup", features=[{"taste": "sour"}, {"tags": ["hot", "quick"]}]),
    RankableAction(id="salad", features=[{"taste": "salty"}]),
]
context = [{"time": "morning"}, {"device": {"os": "x", "width": 800}}]
answer = old.rank(
    RankRequest(actions=actions, context_features=context, excluded_actions=["salad"], event_id="old-1")
)
reply["old_rank"] = {
    "event": answer.event_id,
    "action": answer.reward_action_id,
    "ranking": [[each.id, each.probability] for each in answer.ranking],
}
reply["old_reward"] = old.events.reward("old-1", 1.0)
deferred = old.rank(RankRequest(actions=actions, context_features=context, defer_activation=True))
reply["old_activate"] = old.events.activate(deferred.event_id)
try:
    old.rank(RankRequest(actions=[actions[0], actions[0]], context_features=context))
except ErrorResponseException as error:
    reply["old_error"] = [error.error.error.code, error.error.error.message]

new = NewClient(url, AzureKeyCredential(key))
body = {
    "actions": [{"id": each.id, "features": each.features} for each in actions],
    "contextFeatures": context,
    "eventId": "new-1",
    "deferActivation": False,
}
reply["new_rank"] = new.rank(body)
reply["new_again"] = new.rank(body)
reply["new_reward"] = new.reward("new-1", {"value": 0.5})
reply["new_activate"] = new.activate("new-1")
slots = [
    {"id": "top", "baselineAction": "pasta", "features": [{"size": "large"}], "excludedActions": ["soup"]},
    {"id": "side", "baselineAction": "salad"},
]
reply["slots"] = new.rank_multi_slot({**body, "eventId": "new-2", "slots": slots})
reply["slots_reward"] = new.reward_multi_slot("new-2", {"reward": [{"slotId": "top", "value": 1.0}]})
reply["slots_activate"] = new.activate_multi_slot("new-2")

admin = PersonalizerAdministrationClient(url, AzureKeyCredential(key))
reply["configuration"] = admin.get_service_configuration()
wanted = {
    **reply["configuration"],
    "rewardWaitTime": "PT20M",
    "explorationPercentage": 0.2,
    "learningMode": "Apprentice",
    "rewardAggregation": "earliest",
    "logRetentionDays": 90,
    "modelExportFrequency": "PT1M",
}
reply["updated"] = admin.update_service_configuration(wanted)
reply["apprentice"] = new.rank({**body, "eventId": "new-3"})
reply["model"] = admin.get_model_properties()
reply["log"] = admin.get_log_properties()
try:
    admin.get_policy()
except HttpResponseError as error:
    reply["policy"] = [error.status_code, error.error.code if error.error else None, error.message]
try:
    list(admin.list_evaluations())
except HttpResponseError as error:
    reply["evaluations"] = [error.status_code]
print(json.dumps(reply))
