"""Float64 NumPy loops, written from the papers: what the library is held against."""

import math

import numpy as np


def arrays(*values):
    return [np.asarray(value, np.float64) for value in values]


def log_normal(z, mean, log_var):
    variance = math.exp(log_var)
    return -0.5 * math.log(2 * math.pi * variance) - (z - mean) ** 2 / (2 * variance)


def pairwise_gaussian(z, mean, log_var):
    z, mean, log_var = arrays(z, mean, log_var)
    batch, dims = z.shape
    out = np.empty((batch, batch, dims))
    for i in range(batch):
        for j in range(batch):
            for d in range(dims):
                out[i, j, d] = log_normal(z[i, d], mean[j, d], log_var[j, d])
    return out


def weights(estimator, batch, size):
    """Weight of q(z_i | x_j) in the estimate of q(z_i), as a matrix."""
    out = np.empty((batch, batch))
    for i in range(batch):
        for j in range(batch):
            if estimator == "naive":
                out[i, j] = 1
            elif estimator == "mws":
                out[i, j] = 1 / (size * batch)
            elif i == j:
                out[i, j] = 1 / size
            elif estimator == "stratified":
                out[i, j] = (size - 1) / (size * (batch - 1))
            else:
                others = batch - 1
                last = j == (i + 1) % batch
                out[i, j] = (size - others) / (size * others) if last else 1 / others
    return out


def bounds(groups):
    start = 0
    for size in groups:
        yield start, start + size
        start += size


def log_sum_exp(values):
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values))


def aggregate(pairwise, estimator, size, groups):
    """Densities under the estimated aggregate posterior, by double loops."""
    pairwise = np.asarray(pairwise, np.float64)
    batch, _, elements = pairwise.shape
    weight = weights(estimator, batch, size)
    out = {
        "log_qz_given_x": np.empty(batch),
        "log_qz": np.empty(batch),
        "log_qz_groups": np.empty((batch, len(groups))),
        "log_qz_dims": np.empty((batch, elements)),
    }

    def estimate(i, low, high):
        return log_sum_exp(
            [
                math.log(weight[i, j]) + pairwise[i, j, low:high].sum()
                for j in range(batch)
            ]
        )

    for i in range(batch):
        out["log_qz_given_x"][i] = pairwise[i, i].sum()
        out["log_qz"][i] = estimate(i, 0, elements)
        for g, (low, high) in enumerate(bounds(groups)):
            out["log_qz_groups"][i, g] = estimate(i, low, high)
        for e in range(elements):
            out["log_qz_dims"][i, e] = estimate(i, e, e + 1)
    return out


def sampled_kl(z, mean, log_var):
    z, mean, log_var = arrays(z, mean, log_var)
    out = np.zeros(len(z))
    for i in range(z.shape[0]):
        for d in range(z.shape[1]):
            out[i] += log_normal(z[i, d], mean[i, d], log_var[i, d])
            out[i] -= log_normal(z[i, d], 0.0, 0.0)
    return out


def analytic_kl(mean, log_var):
    mean, log_var = arrays(mean, log_var)
    out = np.zeros(mean.shape)
    for i in range(mean.shape[0]):
        for d in range(mean.shape[1]):
            variance = math.exp(log_var[i, d])
            out[i, d] = (mean[i, d] ** 2 + variance - math.log(variance) - 1) / 2
    return out


def decomposition(z, mean, log_var, estimator, size, groups=None):
    z, mean, log_var = arrays(z, mean, log_var)
    groups = groups or (1,) * z.shape[1]
    out = aggregate(pairwise_gaussian(z, mean, log_var), estimator, size, groups)
    information = correlation = rest = 0.0
    for i in range(len(z)):
        product = sum(out["log_qz_groups"][i])
        prior = sum(log_normal(value, 0.0, 0.0) for value in z[i])
        information += out["log_qz_given_x"][i] - out["log_qz"][i]
        correlation += out["log_qz"][i] - product
        rest += product - prior
    return {
        "mutual_information": information / len(z),
        "total_correlation": correlation / len(z),
        "dimension_wise_kl": rest / len(z),
    }


def bernoulli(x, logits, *, subtract_entropy=False):
    x, logits = arrays(x, logits)
    out = np.zeros(len(x))
    for i in range(len(x)):
        for pixel, logit in zip(x[i].ravel(), logits[i].ravel()):
            p = 1 / (1 + math.exp(-logit))
            out[i] -= pixel * math.log(p) + (1 - pixel) * math.log1p(-p)
            if subtract_entropy:
                for value in (pixel, 1 - pixel):
                    out[i] += value * math.log(value) if value > 0 else 0.0
    return out


def dip(mean, log_var, kind, lambda_od, lambda_d):
    mean, log_var = arrays(mean, log_var)
    batch, dims = mean.shape
    centre = mean.sum(axis=0) / batch
    out = 0.0
    for a in range(dims):
        for b in range(dims):
            entry = 0.0
            for i in range(batch):
                entry += (mean[i, a] - centre[a]) * (mean[i, b] - centre[b]) / batch
            if a != b:
                out += lambda_od * entry**2
                continue
            if kind == "ii":
                entry += sum(math.exp(v) for v in log_var[:, a]) / batch
            out += lambda_d * (entry - 1) ** 2
    return out


def mmd(x, y, kernel, scale):
    x, y = arrays(x, y)

    def k(a, b):
        squared = sum((u - v) ** 2 for u, v in zip(a, b))
        return (
            scale / (scale + squared) if kernel == "imq" else math.exp(-squared / scale)
        )

    def within(sample):
        values = [k(sample[i], sample[j]) for i in range(len(sample)) for j in range(i)]
        return sum(values) / len(values)

    across = [k(a, b) for a in x for b in y]
    return within(x) + within(y) - 2 * sum(across) / len(across)


def ada_posteriors(mean1, log_var1, mean2, log_var2, distance, average, ratio=0.5):
    mean1, log_var1, mean2, log_var2 = arrays(mean1, log_var1, mean2, log_var2)
    out = [a.copy() for a in (mean1, log_var1, mean2, log_var2)]

    def kl(m1, v1, m2, v2):
        return 0.5 * (v1 / v2 + (m2 - m1) ** 2 / v2 - 1 + math.log(v2) - math.log(v1))

    for i in range(mean1.shape[0]):
        gaps = []
        for d in range(mean1.shape[1]):
            v1, v2 = math.exp(log_var1[i, d]), math.exp(log_var2[i, d])
            gap = kl(mean1[i, d], v1, mean2[i, d], v2)
            if distance == "symmetric_kl":
                gap = 0.5 * gap + 0.5 * kl(mean2[i, d], v2, mean1[i, d], v1)
            gaps.append(gap)
        threshold = min(gaps) + ratio * (max(gaps) - min(gaps))
        for d, gap in enumerate(gaps):
            if gap >= threshold:
                continue
            v1, v2 = math.exp(log_var1[i, d]), math.exp(log_var2[i, d])
            if average == "gvae":
                mean, variance = (mean1[i, d] + mean2[i, d]) / 2, (v1 + v2) / 2
            else:
                mean = (mean1[i, d] / v1 + mean2[i, d] / v2) / (1 / v1 + 1 / v2)
                variance = 2 * v1 * v2 / (v1 + v2)
            out[0][i, d] = out[2][i, d] = mean
            out[1][i, d] = out[3][i, d] = math.log(variance)
    return out


def transition_kl(mean, log_var, rate):
    """KL from a Laplace transition by a sum over a fine grid; neighbours are pairs."""
    mean, log_var = arrays(mean, log_var)
    out = np.zeros(len(mean))
    for i in range(len(mean)):
        other = mean[i + 1 if i % 2 == 0 else i - 1]
        for d in range(mean.shape[1]):
            sigma = math.exp(log_var[i, d] / 2)
            # The kink of the Laplace density is a point of the grid.
            ends = sorted([mean[i, d] - 12 * sigma, other[d], mean[i, d] + 12 * sigma])
            for low, high in zip(ends[:-1], ends[1:]):
                z = np.linspace(low, high, 100_001)
                log_q = -((z - mean[i, d]) ** 2) / (2 * sigma**2)
                log_q -= math.log(sigma * math.sqrt(2 * math.pi))
                log_p = math.log(rate / 2) - rate * abs(z - other[d])
                out[i] += np.trapezoid(np.exp(log_q) * (log_q - log_p), z)
    return out


def nearest(z, codebook):
    """The nearest value of each latent's codebook, and its number."""
    z, codebook = arrays(z, codebook)
    values, numbers = np.empty(z.shape), np.empty(z.shape, int)
    for i in range(z.shape[0]):
        for d in range(z.shape[1]):
            distances = [abs(z[i, d] - value) for value in codebook[d]]
            numbers[i, d] = distances.index(min(distances))
            values[i, d] = codebook[d, numbers[i, d]]
    return values, numbers


def deviation(z):
    (z,) = arrays(z)
    out = []
    for d in range(z.shape[1]):
        mean = sum(z[:, d]) / len(z)
        out.append(math.sqrt(sum((v - mean) ** 2 for v in z[:, d]) / len(z)) + 1e-6)
    return np.array(out)


def multi_information(z, scale):
    """Kernel densities with Silverman's bandwidth for the joint density."""
    z, scale = arrays(z, scale)
    batch, dims = z.shape
    silverman = (4 / (dims + 2)) ** (1 / (dims + 4)) * batch ** (-1 / (dims + 4))

    def log_kernel(i, j, d, width):
        return log_normal(z[i, d], z[j, d], 2 * math.log(width))

    total = 0.0
    for i in range(batch):
        joint = [
            sum(log_kernel(i, j, d, silverman * scale[d]) for d in range(dims))
            for j in range(batch)
        ]
        total += log_sum_exp(joint) - math.log(batch)
        for d in range(dims):
            marginal = [log_kernel(i, j, d, scale[d]) for j in range(batch)]
            total -= log_sum_exp(marginal) - math.log(batch)
    return total / batch


def hessian_penalty(activations, z, scale, signs, normal, epsilon):
    """Ratios of variances of second differences, for each example."""
    z, scale, signs, normal = arrays(z, scale, signs, normal)
    out = np.zeros(len(z))

    def layers(code):
        return {name: a[0].ravel() for name, a in activations(code[None]).items()}

    for i in range(len(z)):
        here = layers(z[i])
        for name in here:
            spread = []
            for directions in (signs[i], normal[i]):
                seconds = []
                for direction in directions:
                    step = epsilon * direction * scale
                    ahead, behind = layers(z[i] + step), layers(z[i] - step)
                    second = ahead[name] - 2 * here[name] + behind[name]
                    seconds.append(second / epsilon**2)
                spread.append(np.mean(np.var(seconds, axis=0)))
            out[i] += spread[0] / (spread[1] + 1e-10)
    return out
