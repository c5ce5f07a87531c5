"""Compiled linear algebra of packed symmetric matrices: row i of the lower triangle starts at i (i + 1) / 2.

That halves the memory traffic of an update, and one more coordinate is one more row at the end.
"""
# mypy: disallow_untyped_decorators=False
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import numpy as np

from treebandit.compiled import helper, summing


@helper
def row_start(i):  # type: ignore[no-untyped-def]
    """Where row i of a packed triangle starts."""
    return i * (i + 1) // 2


@summing
def dot(a, b, size):  # type: ignore[no-untyped-def]
    """a · b of the first `size` entries."""
    total = 0.0
    for i in range(size):
        total += a[i] * b[i]
    return total


@summing
def product(matrix, size, v, image):  # type: ignore[no-untyped-def]
    """image = matrix · v, of a packed matrix and a dense vector."""
    for i in range(size):
        row = matrix[row_start(i) :]
        total, here = row[i] * v[i], v[i]
        for j in range(i):
            total += row[j] * v[j]
            image[j] += row[j] * here
        image[i] = total


@summing
def sparse_product(matrix, size, places, z, image):  # type: ignore[no-untyped-def]
    """image = matrix · v, of a packed matrix and the few entries of v that are not 0."""
    for j in range(size):
        image[j] = 0.0
    for a in range(places.shape[0]):
        place, here = places[a], z[a]
        row = matrix[row_start(place) : row_start(place) + place + 1]
        for j in range(place + 1):
            image[j] += row[j] * here
        for j in range(place + 1, size):
            image[j] += matrix[row_start(j) + place] * here


@summing
def form(matrix, size, v):  # type: ignore[no-untyped-def]
    """v' · matrix · v."""
    total = 0.0
    for i in range(size):
        row = matrix[row_start(i) :]
        half = 0.5 * row[i] * v[i]
        for j in range(i):
            half += row[j] * v[j]
        total += 2.0 * half * v[i]
    return total


@summing
def sparse_form(matrix, places, z):  # type: ignore[no-untyped-def]
    """v' · matrix · v, for the cost of the entries of v that are not 0, squared."""
    total = 0.0
    for a in range(places.shape[0]):
        i = places[a]
        half = 0.5 * matrix[row_start(i) + i] * z[a]
        for b in range(a):
            j = places[b]
            half += matrix[row_start(i) + j if i > j else row_start(j) + i] * z[b]
        total += 2.0 * half * z[a]
    return total


@summing
def cholesky(matrix, size, ridge):  # type: ignore[no-untyped-def]
    """A packed matrix Σ zz' -> the root L of λI + Σ zz' = LL', in place.

    All pivots of such a matrix are at least λ. Where rounding says otherwise they are set to it, so this cannot fail.
    """
    for i in range(size):
        row = matrix[row_start(i) :]
        for j in range(i):
            above = matrix[row_start(j) :]
            row[j] = (row[j] - dot(row, above, j)) / above[j]
        pivot = row[i] - dot(row, row, i)
        row[i] = np.sqrt(ridge + (pivot if pivot > 0.0 else 0.0))


@summing
def invert(sums, size, ridge, solution, fresh):  # type: ignore[no-untyped-def]
    """From sums Σ zz', packed, and Σ zr to the solution A⁻¹ = (λI + Σ zz')⁻¹ and A⁻¹ Σ zr; `fresh` is scratch."""
    (gram, moment), (matrix, theta) = sums, solution
    for i in range(row_start(size)):
        matrix[i] = gram[i]
    cholesky(matrix, size, ridge)
    # Row by row L -> M = L⁻¹.
    for i in range(size):
        row = matrix[row_start(i) :]
        for j in range(i):
            fresh[j] = 0.0
        for k in range(i):
            above, here = matrix[row_start(k) :], row[k]
            for j in range(k + 1):
                fresh[j] -= here * above[j]
        pivot = 1.0 / row[i]
        for j in range(i):
            row[j] = fresh[j] * pivot
        row[i] = pivot
    # A⁻¹ = M'M: row k of M adds to rows 0 to k, none of which is read again.
    for k in range(size):
        last = matrix[row_start(k) :]
        for i in range(k):
            row, here = matrix[row_start(i) :], last[i]
            for j in range(i + 1):
                row[j] += here * last[j]
        here = last[k]
        for j in range(k + 1):
            last[j] *= here
    product(matrix, size, moment, theta)


@summing
def solve(lower, x, size):  # type: ignore[no-untyped-def]
    """x -> (LL')⁻¹ x, in place, of a packed root L."""
    for i in range(size):
        row = lower[row_start(i) :]
        x[i] = (x[i] - dot(row, x, i)) / row[i]
    for i in range(size - 1, -1, -1):
        row = lower[row_start(i) :]
        x[i] /= row[i]
        for j in range(i):
            x[j] -= row[j] * x[i]


@helper
def semidefinite_root(matrix):  # type: ignore[no-untyped-def]
    """The root of a matrix of which the lower triangle is given, in place; rows that others determine get no pivot."""
    n, most = matrix.shape[0], 0.0
    for i in range(n):
        most = matrix[i, i] if matrix[i, i] > most else most
    for i in range(n):
        for j in range(i):
            pivot = matrix[j, j]
            rest = matrix[i, j] - dot(matrix[i], matrix[j], j)
            matrix[i, j] = rest / pivot if pivot > 0.0 else 0.0
        rest = matrix[i, i] - dot(matrix[i], matrix[i], i)
        matrix[i, i] = np.sqrt(rest) if rest > 1e-12 * most else 0.0
        for j in range(i + 1, n):
            matrix[i, j] = 0.0
