import pickle
import sys

import numpy as np
import pandas as pd
import pytest

from treebandit import Candidates, Columns, NeuralTS, NeuralUCB, play_round
from treebandit.environments import Classification
from treebandit.errors import MissingExtraError, NotFittedError, ParameterError

torch = pytest.importorskip("torch")

from treebandit.models.network import GradientNetwork, NetworkSettings  # noqa: E402

SHAPES = [((3, 5, 1), None), ((3, 5, 1), 4), ((3, 6, 4, 1), None), ((2, 5, 4, 3, 1), 3)]


def network(sizes, blocks, *, full=False, prior=0.5, **more):
    generator = torch.Generator().manual_seed(1)
    matrix = "full" if full else "diagonal"
    settings = NetworkSettings(hidden=sizes[1:-1], regularisation=prior, matrix=matrix, **more)
    return GradientNetwork(sizes[0], settings, blocks=blocks, generator=generator)


def drawn(sizes, blocks, n=7, seed=0):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, sizes[0])).astype(np.float32)
    return rows, None if blocks is None else random.integers(blocks, size=n)


def plain_output(vector, net, row, arm_row):
    """The network written out for one row, over the flat vector; torch differentiates it."""
    layers = net.layers(vector)
    units = torch.as_tensor(row)
    for place, (weights, biases) in enumerate(layers):
        sums = (weights if place else weights[arm_row]) @ units + biases
        units = torch.relu(sums) if place < len(layers) - 1 else sums
    return units[0]


def plain_gradients(net, rows, arm_rows):
    vector = net.vectors[0].clone().requires_grad_()
    arm_rows = np.zeros(len(rows), int) if arm_rows is None else arm_rows
    gradients = [
        torch.autograd.grad(plain_output(vector, net, row, arm_row), vector)[0].double().numpy()
        for row, arm_row in zip(rows, arm_rows, strict=True)
    ]
    return np.array(gradients)


@pytest.mark.parametrize(("sizes", "blocks"), SHAPES)
def test_output_gradient_and_spread_are_those_of_automatic_differentiation(sizes, blocks):
    net = network(sizes, blocks)
    rows, arm_rows = drawn(sizes, blocks)
    gradients = plain_gradients(net, rows, arm_rows)
    output, spread = net.predict(rows, arm_rows)
    places = np.zeros(len(rows), int) if arm_rows is None else arm_rows
    plain = [float(plain_output(net.vectors[0], net, *pair)) for pair in zip(rows, places, strict=True)]
    assert output == pytest.approx(plain, rel=1e-5, abs=1e-6)
    assert spread == pytest.approx((gradients**2).sum(1) / 0.5, rel=1e-4)

    seen_rows, seen_arm_rows = drawn(sizes, blocks, n=60, seed=1)
    net.add_gradients(seen_rows, seen_arm_rows)
    net.add_gradients(seen_rows[:1], None if seen_arm_rows is None else seen_arm_rows[:1])
    squares = plain_gradients(net, seen_rows, seen_arm_rows) ** 2
    curvature = 0.5 + squares.sum(0) + squares[0]
    assert net.vectors[1].numpy() == pytest.approx(curvature, rel=1e-4)
    assert net.predict(rows, arm_rows)[1] == pytest.approx((gradients**2 / curvature).sum(1), rel=1e-4)


@pytest.mark.parametrize(("sizes", "blocks"), SHAPES)
def test_the_full_matrix_is_the_inverse_of_the_sum_of_outer_products(sizes, blocks):
    net = network(sizes, blocks, full=True)
    seen = drawn(sizes, blocks, n=20, seed=1)
    net.add_gradients(*seen)
    past = plain_gradients(net, *seen)
    inverse = np.linalg.inv(0.5 * np.eye(past.shape[1]) + past.T @ past)
    rows = drawn(sizes, blocks)
    gradients = plain_gradients(net, *rows)
    assert net.predict(*rows)[1] == pytest.approx(((gradients @ inverse) * gradients).sum(1), rel=1e-3)


def test_a_network_too_large_for_the_full_matrix_is_refused():
    agent = NeuralUCB(matrix="full", hidden=(200,), seed=0)
    with pytest.raises(ParameterError, match="diagonal"):
        agent.learn(np.zeros((1, 40)), [1.0], [0])
    assert len(agent.model.history) == 0
    assert agent.clock == 0


def test_one_step_follows_the_gradient_of_the_squared_error():
    settings = {"epochs": 1, "batch_size": 8, "dropout": 0.0, "learning_rate": 0.1, "optimiser": "sgd"}
    net = network((3, 5, 1), 4, **settings)
    rows, arm_rows = drawn((3, 5, 1), 4, n=8)
    targets = np.arange(8, dtype=np.float32)
    before = net.vectors[0].clone().requires_grad_()
    outputs = torch.stack(
        [plain_output(before, net, row, arm_row) for row, arm_row in zip(rows, arm_rows, strict=True)]
    )
    loss = (outputs - torch.from_numpy(targets)).square().mean() + 0.5 / 8 / 2 * before.square().sum()
    (expected,) = torch.autograd.grad(loss, before)
    net.train(rows, arm_rows, targets)
    assert (before.detach() - net.vectors[0]).numpy() == pytest.approx(0.1 * expected.numpy(), abs=1e-5)


def test_adam_is_torchs_adam():
    net = network((2, 3, 1), None, learning_rate=0.01)
    vector = net.vectors[0].clone().requires_grad_()
    optimiser = torch.optim.Adam([vector], lr=0.01)
    for gradient in torch.randn((5, len(vector)), generator=torch.Generator().manual_seed(0)):
        vector.grad = gradient
        optimiser.step()
        net.step(gradient)
    assert net.vectors[0].numpy() == pytest.approx(vector.detach().numpy(), abs=1e-6)


def test_training_fits_a_curve_and_stops_early_where_told():
    x = np.linspace(-2, 2, 400, dtype=np.float32)[:, None]
    y = np.abs(x[:, 0]) - 1.0
    settings = {"prior": 1e-3, "batch_size": 32, "dropout": 0.0, "learning_rate": 0.01, "epochs": 60}
    long, short = (network((1, 30, 1), None, early_stopping=early, **settings) for early in (False, True))
    long.train(x, None, y)
    short.train(x, None, y)
    assert np.mean((long.predict(x, None)[0] - y) ** 2) < 0.01
    assert short.steps < long.steps


def test_blocks_are_a_wide_network_over_zero_padded_inputs():
    net = network((3, 5, 1), 4)
    rows, arm_rows = drawn((3, 5, 1), 4)
    wide = network((12, 5, 1), None)
    padded = np.zeros((len(rows), 4, 3), np.float32)
    padded[np.arange(len(rows)), arm_rows] = rows
    upper = len(net.vectors[0]) - 4 * 5 * 3
    blocks = net.vectors[0][upper:].view(4, 5, 3)
    flat = torch.cat((net.vectors[0][:upper], blocks.permute(1, 0, 2).reshape(-1)))
    wide.vectors[0] = flat
    assert wide.predict(padded.reshape(-1, 12), None)[0] == pytest.approx(
        net.predict(rows, arm_rows)[0], abs=1e-6
    )


@pytest.mark.parametrize("kind", [NeuralUCB, NeuralTS])
def test_it_learns(kind):
    agent, environment = kind(hidden=(20,), seed=0), Classification("mushroom", seed=0)
    assert sum(play_round(agent, environment)[1].regret for _ in range(300)) < 60


def taught(kind=NeuralUCB, **arguments):
    agent = kind(hidden=(10,), seed=0, **arguments)
    contexts = np.random.default_rng(0).normal(size=(80, 2)).astype(np.float32)
    agent.learn(contexts, contexts[:, 0], np.arange(80) % 2)
    return agent


def test_ucb_adds_the_deviation_and_ts_draws_with_it():
    candidates = Candidates(np.ones((2, 2), np.float32), np.array([0, 7]), Columns.numeric(2))
    ucb = taught(exploration=0.5)
    estimate = ucb.estimate(candidates.contexts, candidates.arms)
    assert ucb.score(candidates) == pytest.approx(estimate.mean + np.sqrt(0.5 * estimate.variance))
    assert estimate.variance[1] > estimate.variance[0], "an arm without rows is less sure"
    assert list(estimate.count) == [40, 0]
    ts = taught(NeuralTS, exploration=0.5)
    draws = np.array([ts.score(candidates) for _ in range(2000)])
    assert draws.mean(0) == pytest.approx(estimate.mean, abs=0.1 * np.sqrt(estimate.variance.max()))
    assert draws.std(0) == pytest.approx(np.sqrt(0.5 * estimate.variance), rel=0.1)
    greedy = taught(exploration=0.0)
    assert greedy.score(candidates) == pytest.approx(
        greedy.estimate(candidates.contexts, candidates.arms).mean
    )


def test_rewards_of_any_size_are_learned():
    agent = NeuralUCB(hidden=(20,), arm_encoding="none", exploration=0.0, epochs=40, dropout=0.0, seed=0)
    x = np.random.default_rng(0).uniform(-1, 1, (400, 1)).astype(np.float32)
    agent.learn(x, 5000.0 * x[:, 0] - 20000.0)
    assert agent.estimate([[-0.5], [0.5]]).mean == pytest.approx([-22500, -17500], rel=0.03)


def test_training_follows_the_schedule():
    agent = taught(rebuild="every 1000")
    trained = agent.model.network.steps
    agent.learn(np.zeros((1, 2)), [1.0], [0])
    assert agent.model.network.steps == trained
    for _ in range(1000):
        agent.score(Candidates(np.zeros((1, 2), np.float32), np.array([0]), Columns.numeric(2)))
    agent.learn(np.zeros((1, 2)), [1.0], [0])
    assert agent.model.network.steps > trained
    assert agent.note == "trained every 1000"


def test_numbers_are_scaled_by_what_was_seen_and_far_ones_cut_off():
    agent = NeuralUCB(hidden=(4,), seed=0)
    contexts = np.array([[1.0, 1e6, 0], [3.0, 3e6, 1], [np.nan, 2e6, 2]], np.float32)
    agent.learn(Candidates(contexts, np.zeros(3, np.intp), Columns((0, 0, 3))), np.array([0.0, 1.0, 1.0]))
    scaled = agent.model.row_scale(np.array([[3.0, 1e9, 1], [np.nan, 2e6, 5]], np.float32))
    assert scaled == pytest.approx(np.array([[1, 5, 0, 1, 0], [0, 0, 0, 0, 0]]), abs=1e-5)


def test_new_categories_in_a_frame_renew_the_network():
    agent = NeuralUCB(hidden=(20,), exploration=0.0, dropout=0.0, epochs=60, learning_rate=0.02, seed=0)
    agent.learn(pd.DataFrame({"colour": ["red", "blue"] * 20}), [1.0, 0.0] * 20, [0] * 40)
    agent.learn(pd.DataFrame({"colour": ["green"] * 20}), [5.0] * 20, [0] * 20)
    mean = agent.estimate(pd.DataFrame({"colour": ["red", "blue", "green"]}), [0, 0, 0]).mean
    assert mean == pytest.approx([1.0, 0.0, 5.0], abs=0.7)


def test_a_failed_training_leaves_the_agent_as_it_was(monkeypatch):
    agent, twin = taught(rebuild="every 1"), taught(rebuild="every 1")

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(GradientNetwork, "step", fail)
        with pytest.raises(MemoryError):
            agent.learn(np.zeros((3, 2)), [1.0, 1.0, 1.0], [0, 1, 5])
    candidates = Candidates(np.ones((3, 2), np.float32), np.array([0, 1, 5]), Columns.numeric(2))
    for one in (agent, twin):
        one.learn(np.ones((2, 2)), [3.0, 0.0], [1, 5])
    assert np.array_equal(agent.score(candidates), twin.score(candidates))


def test_threads_of_the_program_are_left_as_they_were():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        taught()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden": ()},
        {"hidden": (0,)},
        {"exploration": -1.0},
        {"regularisation": 0.0},
        {"learning_rate": float("nan")},
        {"dropout": 1.0},
        {"epochs": 0},
        {"batch_size": 0},
        {"arm_encoding": "label"},
        {"optimiser": "lbfgs"},
        {"matrix": "block"},
        {"rebuild": "sometimes"},
    ],
)
def test_wrong_arguments_are_named(wrong):
    (name,) = wrong
    with pytest.raises(ParameterError, match=name):
        NeuralUCB(**wrong)


def test_no_estimate_before_the_first_row():
    with pytest.raises(NotFittedError, match="learn"):
        NeuralTS().estimate(np.zeros((1, 2)), [0])


def test_a_missing_torch_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"treebandit\[neural\]"):
        NeuralUCB()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-45, 1e-40, 1e-30])
def test_columns_of_the_smallest_numbers_do_not_overflow(size):
    values = (np.random.default_rng(0).normal(size=(60, 2)) * [size, 1.0]).astype(np.float32)
    agent = NeuralUCB(hidden=(5,), epochs=1, seed=0)
    agent.learn(Candidates(values, np.arange(60) % 2, Columns.numeric(2)), values[:, 1])
    offered = Candidates(
        np.array([[0.0, 1.0], [3e38, 1.0]], np.float32), np.array([0, 1]), Columns.numeric(2)
    )
    agent.choose(offered)
    assert np.isfinite(agent.estimate(offered).mean).all()


@pytest.mark.parametrize("matrix", ["diagonal", "full"])
def test_a_pickled_agent_holds_no_tensors_which_a_spawned_process_could_not_open(matrix):
    agent = NeuralTS(hidden=(4, 3), epochs=1, matrix=matrix, seed=0)
    rows, arms = np.random.default_rng(0).normal(size=(60, 3)), ["a", "b"] * 30
    agent.learn(rows[:40], rows[:40, 0], arms=arms[:40])
    content = pickle.dumps(agent)
    assert b"torch" not in content
    again = pickle.loads(content)
    for each in (agent, again):
        each.learn(rows[40:], rows[40:, 0], arms=arms[40:])
    for row in rows:
        chosen = [each.choose(row, arms=["a", "b", "c"]).tolist() for each in (agent, again)]
        assert chosen[0] == chosen[1]
    assert again.estimate(rows, arms=arms).mean.tolist() == agent.estimate(rows, arms=arms).mean.tolist()
