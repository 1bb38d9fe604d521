// Percentiles as the report computes them: the nearest rank, of sorted values.

/** The value at a quantile given in thousandths: the nearest rank, the first being the smallest. Null of nothing. */
function atRank(sorted: ArrayLike<number>, permille: number): number | null {
  const n = sorted.length
  if (n === 0) return null
  return sorted[Math.max(Math.ceil(n * permille / 1000), 1) - 1]!
}

export interface Ranks { count: number; mean: number | null; min: number | null; p50: number | null; p75: number | null; p90: number | null; p95: number | null; p99: number | null; max: number | null }

/** The figures of a sample in any order; what is unknown is left out and counted in nothing. */
export function ranks(values: Iterable<number | null | undefined>): Ranks {
  const known: number[] = []
  let sum = 0
  for (const v of values) {
    if (v === null || v === undefined) continue
    known.push(v)
    sum += v
  }
  const s = Float64Array.from(known).sort()
  return {
    count: s.length, mean: s.length > 0 ? sum / s.length : null,
    min: s[0] ?? null, p50: atRank(s, 500), p75: atRank(s, 750), p90: atRank(s, 900), p95: atRank(s, 950), p99: atRank(s, 990), max: s[s.length - 1] ?? null,
  }
}

/** A value and for how many requests it stands. */
interface Weighed { v: number; w: number }

/**
 * The figures of a sample in which each value stands for several: estimates of what ranks says
 * of all of them. With weights of 1 they are the same.
 */
export function weighedRanks(values: readonly { v: number | null; w: number }[]): Ranks {
  const known = values.filter((x): x is Weighed => x.v !== null).sort((a, b) => a.v - b.v)
  let all = 0
  let sum = 0
  for (const x of known) {
    all += x.w
    sum += x.v * x.w
  }
  const at = (permille: number): number | null => {
    let below = 0
    for (const x of known) if ((below += x.w) >= all * permille / 1000 - 1e-9 * all) return x.v
    return known[known.length - 1]?.v ?? null
  }
  return {
    count: Math.round(all), mean: all > 0 ? sum / all : null,
    min: known[0]?.v ?? null, p50: at(500), p75: at(750), p90: at(900), p95: at(950), p99: at(990), max: known[known.length - 1]?.v ?? null,
  }
}
