// The steps of a run as summary.json has them, read with nothing taken for granted.

type N = number | null

export interface StepDist { p50: N; p95: N; p99: N; mean: N; ci: (stat: string) => [number, number] | null }
export interface Step {
  users: N
  rate: N
  complete: boolean
  scheduled: number
  errors: number
  completedPerS: N
  outputPerS: N
  goodput: N
  attainment: N
  /** Whether it is held against limits, and whether those that were measured are met; null when none was. */
  judged: boolean
  met: boolean | null
  latency: (figure: string) => StepDist
}

const object = (v: unknown): Record<string, unknown> => (typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Record<string, unknown>) : {})
const number = (v: unknown): N => (typeof v === 'number' && Number.isFinite(v) ? v : null)

/** The steps of a summary, or the one level of load that it was of; none where nothing tells what that was. */
export function stepsOf(summary: Record<string, unknown> | null): Step[] {
  const list = Array.isArray(summary?.steps) ? summary.steps : []
  return (list.length > 0 ? list : level(summary)).map(v => {
    const s = object(v)
    const latency = object(s.latency_ms)
    const requests = object(s.requests)
    const slo = object(s.slo)
    return {
      users: number(s.users), rate: number(s.rate), complete: s.complete !== false, scheduled: number(requests.scheduled) ?? 0, errors: number(requests.error) ?? 0,
      completedPerS: number(object(s.load).completed_rps), outputPerS: number(object(s.tokens).output_per_s),
      goodput: number(slo.goodput_rps), attainment: number(slo.attainment), judged: Array.isArray(slo.limits), met: typeof slo.met === 'boolean' ? slo.met : null,
      latency: figure => dist(latency[figure]),
    }
  })
}

/** All of a run as a step. Users of one workload beside others, which may have rates, are no level of load. */
function level(summary: Record<string, unknown> | null): unknown[] {
  const load = object(summary?.load)
  const users = number(load.users) ?? 0
  if (users > 0 && Object.keys(object(summary?.workloads)).length > 1) return []
  return users > 0 || number(load.offered_rps) !== null ? [{ ...summary, users, rate: load.offered_rps }] : []
}

function dist(v: unknown): StepDist {
  const d = object(v)
  const ci = object(d.ci95)
  return {
    p50: number(d.p50), p95: number(d.p95), p99: number(d.p99), mean: number(d.mean),
    ci: stat => {
      const [lo, hi] = Array.isArray(ci[stat]) ? (ci[stat] as unknown[]) : []
      const [a, b] = [number(lo), number(hi)]
      return a === null || b === null ? null : [a, b]
    },
  }
}

/** The load of a step in words: 64 users, 10 requests/s. */
export function loadOf(s: Step): { n: number; by: 'users' | 'rate' } | null {
  if (s.users !== null && s.users > 0) return { n: s.users, by: 'users' }
  if (s.rate !== null) return { n: s.rate, by: 'rate' }
  return null
}
