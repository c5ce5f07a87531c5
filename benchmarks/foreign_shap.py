"""What SHAP's tree explainer says of models of XGBoost and scikit-learn, for tests/trees/test_attribution.py.

python benchmarks/foreign_shap.py tests/trees/shap.json   in an environment that has shap, xgboost and scikit-learn
"""

import json
import sys

import numpy as np
import shap
import sklearn
import xgboost
from sklearn.ensemble import RandomForestRegressor

random = np.random.default_rng(0)
X = random.normal(size=(200, 5)).astype(np.float32)
Y = 2.0 * X[:, 0] + (X[:, 1] > 0) * X[:, 2] + random.normal(size=200) * 0.1
ROWS = np.round(random.normal(size=(12, 5)), 3).astype(np.float32)


def boosting():
    """Nodes of an XGBoost model, and SHAP's values; some rows have missing values."""
    x, rows = X.copy(), ROWS.copy()
    x[random.random(x.shape) < 0.1] = np.nan
    rows[random.random(rows.shape) < 0.2] = np.nan
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=4, min_child_weight=2, base_score=0.5).fit(x, Y)
    nodes = []
    for text in model.get_booster().get_dump(dump_format="json", with_stats=True):
        flat = {}
        _flatten(json.loads(text), flat)
        nodes.append([flat[place] for place in sorted(flat)])
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    return _described(nodes, rows, explainer, 0.5, model.predict(rows))


def _flatten(node, flat):
    """[left, right, feature, threshold, missing goes left, value, cover]"""
    if "leaf" in node:
        flat[node["nodeid"]] = [-1, -1, 0, 0.0, True, node["leaf"], node["cover"]]
        return
    feature, left = int(node["split"][1:]), node["missing"] == node["yes"]
    flat[node["nodeid"]] = [
        node["yes"],
        node["no"],
        feature,
        node["split_condition"],
        left,
        0.0,
        node["cover"],
    ]
    for child in node["children"]:
        _flatten(child, flat)


def forest():
    """Nodes of a random forest without bootstrap, whose counts are those of all rows, and SHAP's values."""
    model = RandomForestRegressor(8, max_depth=5, bootstrap=False, max_features=2, random_state=0).fit(X, Y)
    nodes = []
    for each in model.estimators_:
        tree = each.tree_
        # x <= threshold goes left: for 32-bit rows, x >= the next larger 32-bit number goes right.
        cut = np.nextafter(tree.threshold.astype(np.float32), np.float32(np.inf))
        nodes.append(
            [
                [
                    int(tree.children_left[k]),
                    int(tree.children_right[k]),
                    max(int(tree.feature[k]), 0),
                    float(cut[k]),
                    True,
                    float(tree.value[k, 0, 0]) / 8,
                    float(tree.weighted_n_node_samples[k]),
                ]
                for k in range(tree.node_count)
            ]
        )
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    return _described(nodes, ROWS, explainer, 0.0, model.predict(ROWS))


def _described(nodes, rows, explainer, base, predicted):
    return {
        "nodes": nodes,
        "rows": [[None if np.isnan(x) else float(x) for x in row] for row in rows],
        "base": base,
        "values": np.asarray(explainer.shap_values(rows), float).tolist(),
        "expected": float(np.ravel(explainer.expected_value)[0]),
        "predicted": np.asarray(predicted, float).tolist(),
    }


if __name__ == "__main__":
    found = {"boosting": boosting(), "forest": forest()}
    versions = {each.__name__: each.__version__ for each in (shap, xgboost, sklearn)}
    with open(sys.argv[1], "w") as file:
        json.dump({"versions": versions, **found}, file)
