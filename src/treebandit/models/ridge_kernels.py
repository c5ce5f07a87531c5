"""The compiled loops of ridge regressions: learning, estimates, roots of covariances, cross-fitted scores."""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import numpy as np

from treebandit.compiled import helper, kernel, long_kernel, summing
from treebandit.models.packed import (
    cholesky,
    dot,
    form,
    invert,
    product,
    row_start,
    semidefinite_root,
    solve,
    sparse_form,
    sparse_product,
)
from treebandit.models.ridge_arrays import (
    ANEW,
    BOUND,
    CATEGORIES,
    COORDINATE,
    COUNT,
    FACTOR,
    LATER,
    LATER_SQUARES,
    MEAN,
    ORIGIN,
    OTHER,
    RENEWED,
    REWARD_MEAN,
    REWARD_SQUARES,
    REWARDS,
    RIDGE,
    SHIFT,
    SIZE,
    SOLUTION,
    SQUARES,
    STANDARDISE,
    START,
    SUMS,
    VERSION,
    Arrays,
    add_up,
    block_number,
    block_of,
    clipped,
    encode,
    row_of,
)

#: Not plain numbers, since numba would compile what they are handed to once more for each. A size that tells `encode`
#: to learn no coordinates; how many the intercept is; where the moments of a column are, and those of its later rows.
_NO_MORE, _INTERCEPT, _ALL_ROWS, _LATER_ROWS = np.int64(-1), np.int64(1), np.int64(COUNT), np.int64(LATER)
#: A column's moments take outliers as they come until they rest on so many rows.
_TRUSTED_ROWS = 20
#: Among so many first rows, where the later half varies so much less, in variance, outliers made the moments.
_FIRST_ROWS = 80
_OUTLYING = 8.0**2
#: A scale is taken up when the rows have grown by an eighth and it differs by so much from the one in use.
_GROWTH, _MOST_NEW_ROWS, _CHANGE = 1.125, 4096, 0.05


@helper
def _add(columns, first, j, value):  # type: ignore[no-untyped-def]
    """Take a value into the count, mean and sum of squares of a column, which are `first` and the next two."""
    step = value - columns[first + 1, j]
    columns[first, j] += 1.0
    columns[first + 1, j] += step / columns[first, j]
    columns[first + 2, j] += step * (value - columns[first + 1, j])


@helper
def _take_over(columns, j, value):  # type: ignore[no-untyped-def]
    """Take a value into the moments of a column's later rows; whether they replace those of all its rows now."""
    taken = False
    _add(columns, _LATER_ROWS, j, value)
    if columns[LATER, j] >= _TRUSTED_ROWS and 2.0 * columns[LATER, j] >= columns[COUNT, j]:
        later = columns[LATER_SQUARES, j] / columns[LATER, j]
        taken = later > 0.0 and _OUTLYING * later * columns[COUNT, j] < columns[SQUARES, j]
        for k in range(3):
            if taken:
                columns[COUNT + k, j] = columns[LATER + k, j]
            columns[LATER + k, j] = 0.0
        columns[ANEW, j] = 1.0 if taken else columns[ANEW, j]
    return taken


@helper
def _update_moments(columns, context, seen):  # type: ignore[no-untyped-def]
    """Take a row into the running moments of its numbers; far outliers count as if they were nearer.

    The first rows have nothing to tell outliers by. So the later half of the first rows has moments of its own, and
    where these say that the column varies far less, they take over. Returns whether those of any column did. Later
    there is no such thing: outliers are bounded by then, and a column that varies less has changed.
    seen: how many rows were learned before.
    """
    anew = False
    for j in range(columns.shape[1]):
        value, count, mean = np.float64(context[j]), columns[COUNT, j], columns[MEAN, j]
        if columns[CATEGORIES, j] == 0.0 and value == value:
            # A number that was missing in all rows so far: in its first value's unit they are at 0, as they were.
            if count == 0.0 and seen > 0.0 and value != 0.0 and value != 1.0:
                columns[SHIFT, j] = value
            if value != 0.0 and value != 1.0:
                columns[OTHER, j] = 1.0
            if count >= _TRUSTED_ROWS and columns[SQUARES, j] > 0.0:
                reach = BOUND * np.sqrt(columns[SQUARES, j] / count)
                value = clipped(value, mean - reach, mean + reach)
            _add(columns, _ALL_ROWS, j, value)
            if count < _FIRST_ROWS and columns[OTHER, j]:
                anew |= _take_over(columns, j, value)
    return anew


@helper
def _carry_over(sums, size, numbers, ratio, offset):  # type: ignore[no-untyped-def]
    """Turn Σ zz' and Σ zr into those of the rows ratio · z + offset; the first entry of z is 1.

    Behind the numbers the ratio is 1 and the offset 0.
    """
    matrix, vector = sums
    # Pairs first: they need the old Σ z, which is column 0.
    for i in range(1, size):
        first = row_start(i)
        for j in range(1, i + 1 if i < numbers else numbers):
            other = ratio[j] * matrix[row_start(j)] + offset[j] * matrix[0]
            own = ratio[j] * matrix[first + j] + offset[j] * matrix[first]
            matrix[first + j] = ratio[i] * own + offset[i] * other
    for i in range(1, size if size < numbers else numbers):
        matrix[row_start(i)] = ratio[i] * matrix[row_start(i)] + offset[i] * matrix[0]
        vector[i] = ratio[i] * vector[i] + offset[i] * vector[0]


@helper
def _renew_scales(model, row, stale):  # type: ignore[no-untyped-def]
    """Take up the scale of the rows seen if it differs; the sums are carried over, which loses nothing."""
    columns, blocks, store, ratio, offset = model.columns, model.blocks, model.store[SUMS], row.v, row.image
    differs, numbers = False, _INTERCEPT
    for i in range(ratio.shape[0]):
        ratio[i] = 1.0
        offset[i] = 0.0
    # ratio · z + offset leads to the scale of the rows seen.
    for j in range(columns.shape[1]):
        numbers += columns[CATEGORIES, j] == 0.0
        # Columns of 0 and 1 stay as they are, like the columns of a category.
        if columns[OTHER, j]:
            place, mean, factor = np.int64(columns[COORDINATE, j]), columns[MEAN, j], 1.0
            deviation = np.sqrt(columns[SQUARES, j] / columns[COUNT, j])
            # Rounding alone gives a constant column a deviation of about 1e-16 of its size.
            if deviation > 1e-7 * abs(mean):
                factor = 1.0 / deviation
            ratio[place] = factor / columns[FACTOR, j]
            offset[place] = (columns[SHIFT, j] - mean) * factor
            differs |= abs(ratio[place] - 1.0) > _CHANGE or abs(offset[place]) > _CHANGE
    if differs:
        for j in range(columns.shape[1]):
            if columns[OTHER, j]:
                columns[SHIFT, j] = columns[MEAN, j]
                columns[FACTOR, j] *= ratio[np.int64(columns[COORDINATE, j])]
        for block in range(1, blocks.shape[0]):
            _carry_over(block_of(blocks, store, block), blocks[block, SIZE], numbers, ratio, offset)
            stale[block] = 1
    for j in range(columns.shape[1]):
        if columns[ANEW, j]:
            columns[ANEW, j] = 0.0
            for block in range(1, blocks.shape[0]):
                # The number counts as missing in all rows so far.
                place, (matrix, vector) = np.int64(columns[COORDINATE, j]), block_of(blocks, store, block)
                for i in range(blocks[block, SIZE]):  # none in spare blocks, which begin where others are
                    matrix[row_start(i) + place if i > place else row_start(place) + i] = 0.0
                    vector[place] = 0.0
                stale[block] = 1


@summing
def _update(solution, size, row, filled, reward):  # type: ignore[no-untyped-def]
    """Let a row change A⁻¹ and θ (Sherman and Morrison); False where A⁻¹ has lost its precision."""
    (inverse, theta), image, leverage, error = solution, row.image, 0.0, reward
    if 4 * filled > size:
        for i in range(size):
            row.v[i] = 0.0
        for a in range(filled):
            row.v[row.places[a]] = row.z[a]
        product(inverse, size, row.v, image)
    else:
        sparse_product(inverse, size, row.places[:filled], row.z[:filled], image)
    for a in range(filled):
        leverage += image[row.places[a]] * row.z[a]
        error -= theta[row.places[a]] * row.z[a]
    if not 0.0 <= leverage < np.inf:
        return False
    for i in range(size):
        share = image[i] / (1.0 + leverage)
        if share != 0.0:
            theta[i] += share * error
            line = inverse[row_start(i) :]
            for j in range(i + 1):
                line[j] -= share * image[j]
    return True


@long_kernel
def learn(parts, contexts, arms, rewards, version, scratch):  # type: ignore[no-untyped-def]
    """Learn (n, d) contexts of (n,) arms with their rewards, if the model still has this version.

    scratch: for a row, and (2, blocks) zeros, of which the second row may tell blocks that are to be solved anew.
    """
    model = Arrays(*parts)
    columns, blocks, places, store, numbers = model
    if numbers[VERSION] != version:
        return
    n, row, counts = contexts.shape[0], row_of(scratch[0], scratch[1]), scratch[2]
    if numbers[STANDARDISE] and numbers[REWARDS] == 0.0:
        numbers[ORIGIN] = rewards[0]
    added, stale = counts[0], counts[1]
    anew = False
    for i in range(n):
        anew |= _update_moments(columns, contexts[i], numbers[REWARDS] + i)
        added[block_number(blocks, arms[i])] += 1
    now, before = numbers[REWARDS] + n, numbers[RENEWED]
    if anew or now >= before * _GROWTH or now >= before + _MOST_NEW_ROWS:
        numbers[RENEWED] = numbers[REWARDS] + n
        _renew_scales(model, row, stale)
    for i in range(n):
        block, reward = block_number(blocks, arms[i]), rewards[i] - numbers[ORIGIN]
        filled, _, size = encode(columns, places[block], blocks[block, SIZE], contexts[i], row)
        blocks[block, SIZE] = size
        sums, solution = block_of(blocks, store[SUMS], block), block_of(blocks, store[SOLUTION], block)
        # Where there are more rows than coordinates, one inversion costs less than so many updates. And updates lose
        # precision little by little: when the rows have doubled, an inversion costs no more than they did.
        rows = np.int64(sums[0][0]) + 1
        if added[block] > size or (rows >= size and rows >= 64 and rows & (rows - 1) == 0):
            stale[block] = 1
        elif stale[block]:
            invert(sums, size, numbers[RIDGE], solution, row.v)
            stale[block] = 0
        if not stale[block]:
            stale[block] = 0 if _update(solution, size, row, filled, reward) else 1
        add_up(sums, row, filled, reward)
        numbers[REWARDS] += 1.0
        step = reward - numbers[REWARD_MEAN]
        numbers[REWARD_MEAN] += step / numbers[REWARDS]
        numbers[REWARD_SQUARES] += step * (reward - numbers[REWARD_MEAN])
    for block in range(blocks.shape[0]):
        if stale[block]:
            sums, solution = block_of(blocks, store[SUMS], block), block_of(blocks, store[SOLUTION], block)
            invert(sums, blocks[block, SIZE], numbers[RIDGE], solution, row.v)
    numbers[VERSION] = version + 1


@kernel
def predict(parts, contexts, arms, layout, made, scratch):  # type: ignore[no-untyped-def]
    """Write z·θ in the unit of rewards, leverage z'A⁻¹z, and rows of the arm, of each context into (3, n) found.

    And features of trees: contexts one-hot, then z·θ, at the end.

    layout: for each column its context, a code, and whether it tells that the context is this code; may be empty.
    arms: (n,), or none: then contexts become features, and nothing is predicted. made: found and features.
    """
    columns, blocks, places, store, numbers = Arrays(*parts)
    (sources, codes, coded), (found, features) = layout, made
    row, last = row_of(scratch[0], scratch[1]), features.shape[1] - 1
    for i in range(contexts.shape[0]):
        for j in range(sources.shape[0]):
            value = contexts[i, sources[j]]
            if coded[j]:
                value = np.float32(value == codes[j])
            features[i, last - sources.shape[0] + j] = value
    # Standardised rewards are less their mean m. What that does to z·θ needs no sums of its own:
    # A⁻¹ Σ z = e - λ A⁻¹e, with e the unit vector of the intercept, whose entry in every z is 1.
    weight = numbers[RIDGE] * numbers[REWARD_MEAN] if numbers[STANDARDISE] else 0.0
    for i in range(arms.shape[0]):
        block = block_number(blocks, arms[i])
        filled, unknown, _ = encode(columns, places[block], _NO_MORE, contexts[i], row)
        inverse, theta = block_of(blocks, store[SOLUTION], block)
        mean, size = numbers[ORIGIN], blocks[block, SIZE]
        for a in range(filled):
            place = row.places[a]
            mean += (theta[place] + weight * inverse[row_start(place)]) * row.z[a]
        if 4 * filled > size:
            for k in range(size):
                row.v[k] = 0.0
            for a in range(filled):
                row.v[row.places[a]] = row.z[a]
            leverage = form(inverse, size, row.v)
        else:
            leverage = sparse_form(inverse, row.places[:filled], row.z[:filled])
        found[0, i] = mean
        features[i, last] = mean
        found[1, i] = (leverage if leverage > 0.0 else 0.0) + unknown / numbers[RIDGE]
        found[2, i] = store[SUMS, blocks[block, START]]


@kernel
def roots(parts, contexts, block, made, scratch):  # type: ignore[no-untyped-def]
    """R with RR' = the covariance Z A⁻¹ Z' of (n, d) contexts in one block, (n, k); k is n, or the coordinates.

    A coordinate that the block does not know comes last, as a unit of its deviation.
    made: (n, width) zeros, (n, n) zeros, and a copy of the block's places and of its sums. Returns k: R is the first k
        columns of the first, or, where k = n, the second.
    """
    columns, blocks, _, store, numbers = Arrays(*parts)
    z, covariance, mine, lower = made
    n, known = contexts.shape[0], blocks[block, SIZE]
    row, size = row_of(scratch[0], scratch[1]), known
    for i in range(n):
        _, _, size = encode(columns, mine, size, contexts[i], row)
    for i in range(n):
        filled, _, _ = encode(columns, mine, size, contexts[i], row)
        for a in range(filled):
            unit = 1.0 if row.places[a] < known else np.sqrt(numbers[RIDGE])
            z[i, row.places[a]] = row.z[a] / unit
    if n > size:
        # R = Z L⁻ᵀ with A = LL'.
        cholesky(lower, known, numbers[RIDGE])
        for i in range(n):
            for j in range(known):
                line = lower[row_start(j) :]
                z[i, j] = (z[i, j] - dot(line, z[i], j)) / line[j]
        return size
    inverse, _ = block_of(blocks, store[SOLUTION], block)
    for i in range(n):
        product(inverse, known, z[i], row.image)
        for j in range(known, size):
            row.image[j] = z[i, j]
        for j in range(i + 1):
            covariance[i, j] = dot(row.image, z[j], size)
    semidefinite_root(covariance)
    return n


@long_kernel
def cross_fit(parts, contexts, arms, given, made, scratch):  # type: ignore[no-untyped-def]
    """Add z·θ of learned rows by regressions of (n,) targets on the rows of the other folds to (n,) scores.

    given: targets and (n,) folds. made: scores, and zeros of the shape of the store.

    The sums of the other folds are those of all rows less those of the own fold; then it takes one Cholesky factor.
    """
    columns, blocks, places, store, numbers = Arrays(*parts)
    n, row, last = contexts.shape[0], row_of(scratch[0], scratch[1]), 0
    # In the first half the sums of all rows, in the second those of a fold, then what solves the others.
    (targets, folds), (scores, both) = given, made
    for fold in folds:  # `folds.max()`, as the functions `max` and `min`, takes long to compile
        last = fold if fold > last else last
    for fold in range(-1, last + 1):
        half = 0 if fold < 0 else 1
        for k in range(store.shape[1]):
            both[1, k] = 0.0
        for i in range(n):
            if fold < 0 or folds[i] == fold:
                block = block_number(blocks, arms[i])
                filled, _, _ = encode(columns, places[block], _NO_MORE, contexts[i], row)
                add_up(block_of(blocks, both[half], block), row, filled, targets[i])
        if fold >= 0:
            for k in range(store.shape[1]):
                both[1, k] = both[0, k] - both[1, k]
            for block in range(1, blocks.shape[0]):
                matrix, vector = block_of(blocks, both[1], block)
                cholesky(matrix, blocks[block, SIZE], numbers[RIDGE])
                solve(matrix, vector, blocks[block, SIZE])
            for i in range(n):
                if folds[i] == fold:
                    block = block_number(blocks, arms[i])
                    filled, _, _ = encode(columns, places[block], _NO_MORE, contexts[i], row)
                    _, theta = block_of(blocks, both[1], block)
                    for a in range(filled):
                        scores[i] += theta[row.places[a]] * row.z[a]
