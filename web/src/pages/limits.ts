// The limits of a run, held against requests of an offline report as the server holds them
// against records.

import type { Judged, Levels, RequestRow, Slo } from '../api'

type N = number | null

/** When a request began: from its end, else from how late it was sent; null where neither is known. */
export function startOf(r: RequestRow): N {
  if (r.end !== null && r.e2e_ms !== null) return r.end - r.e2e_ms
  return r.send_lag_ms === null ? null : r.t + r.send_lag_ms
}

/** A figure that counts from the schedule. */
export function fromSchedule(r: RequestRow, v: N): N {
  const start = startOf(r)
  return start === null || v === null ? null : start - r.t + v
}

const columns: Record<string, 'ttft_ms' | 'ttfc_ms' | 'ttlt_ms' | 'tpot_ms' | 'e2e_ms'> = { ttft: 'ttft_ms', ttfc: 'ttfc_ms', ttlt: 'ttlt_ms', tpot: 'tpot_ms', e2e: 'e2e_ms' }

/** The figure of a request that a limit is about. */
function valueOf(r: RequestRow, l: Slo): N {
  const column = columns[l.metric.replace(/_from_schedule$/, '')]
  let v = column === undefined ? null : r[column]
  if (l.from_schedule) v = fromSchedule(r, v)
  if (l.with_retrieval && v !== null) v = r.retrieval_ms === null ? null : v + r.retrieval_ms
  return v
}

/** How long an abandoned request had waited. */
function waited(r: RequestRow, l: Slo): N {
  const start = l.from_schedule ? r.t : startOf(r)
  return r.end === null || start === null ? null : r.end - start + (l.with_retrieval ? r.retrieval_ms ?? 0 : 0)
}

const about = (l: Slo, r: RequestRow): boolean => (!l.workload || l.workload === r.workload) && (!l.turn || (l.turn === 'later') === r.turn > 0)

/** The thousandths of a percentile: p95, p99.9, p999. */
function permille(stat: string): number {
  const digits = stat.slice(1)
  return Math.round(/^9\d\d$/.test(digits) ? Number(digits) : Number(digits) * 10)
}

/** A statistic of weighed values and of infinite ones; Infinity where it is infinite. */
function statOf(values: { v: number; w: number }[], infinite: number, stat: string): number {
  const all = values.reduce((n, x) => n + x.w, infinite)
  if (stat === 'mean' || stat === 'max') {
    if (infinite > 0) return Infinity
    return stat === 'max' ? values.reduce((most, x) => Math.max(most, x.v), -Infinity) : values.reduce((sum, x) => sum + x.v * x.w, 0) / all
  }
  const enough = (all * permille(stat)) / 1000 - 1e-9 * all
  let below = 0
  for (const x of values.sort((a, b) => a.v - b.v)) if ((below += x.w) >= enough) return x.v
  return Infinity
}

/**
 * What a list of limits comes to, and the requests that are good by all of them. A request stands
 * for as many as its weight says. buffered says that some streams came in one burst, whose spacing
 * is a proxy's: which ones they were is not in the page.
 */
export function judge(limits: readonly Slo[], rows: readonly RequestRow[], seconds: number, weight: (r: RequestRow) => number, buffered: boolean): Levels {
  const absent = (l: Slo) => l.metric === 'itl' || (l.metric === 'tpot' && buffered)
  const held = limits.map((l): Judged => {
    const { metric, stat, limit, workload, turn, from_schedule, with_retrieval } = l
    const out: Judged = { metric, stat, limit, value: null, met: null, ...(workload && { workload }), ...(turn && { turn }), ...(from_schedule && { from_schedule }), ...(with_retrieval && { with_retrieval }) }
    if (absent(l)) return { ...out, absent: true }
    const values: { v: number; w: number }[] = []
    let infinite = 0
    let without = false
    for (const r of rows) {
      if (!about(l, r)) continue
      const w = weight(r)
      const v = valueOf(r, l)
      if (r.status === 'error' || r.status === 'incomplete') infinite += w
      else if (v !== null) values.push({ v, w })
      else if (r.status === 'ok') without = true
      else if (l.metric !== 'tpot' && (waited(r, l) ?? 0) > limit) infinite += w
    }
    if (values.length === 0 && (infinite === 0 || without)) return out
    const value = statOf(values, infinite, stat)
    return { ...out, value: Number.isFinite(value) ? value : null, met: value <= limit }
  })
  const measured = held.filter(l => l.met !== null)
  const known = measured.length > 0 && !held.some(l => l.absent)
  let all = 0
  let good = 0
  for (const r of rows) {
    const w = weight(r)
    all += w
    if (r.status === 'ok' && !limits.some(l => about(l, r) && (valueOf(r, l) ?? -Infinity) > l.limit)) good += w
  }
  return {
    met: measured.some(l => !l.met) ? false : known ? true : null,
    goodput_rps: known && seconds > 0 ? good / seconds : null, attainment: known && all > 0 ? good / all : null, limits: held,
  }
}
