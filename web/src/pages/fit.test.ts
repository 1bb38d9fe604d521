import { describe, expect, it } from 'vitest'
import type { ProbeDoc } from '../api'
import { sessionOf } from './figures'
import { curveOf } from './fit'
import { loadOf, stepsOf } from './step-figures'

const fit = (name: string, value: number | null, unit: string) => ({ name, value, lo: null, hi: null, unit, text: '', ok: true })
const probe = (over: Partial<ProbeDoc>): ProbeDoc => ({
  schema: '', probe: '', question: '', x: { name: 'prompt', unit: 'tokens' }, y: { name: 'ttft', unit: 'ms' }, notes: [], fits: [],
  points: [512, 1024, 65536].map(x => ({ x, y: 5 + x / 10, lo: null, hi: null, series: '', n: 5 })), ...over,
})

describe('sessionOf', () => {
  it.each([[6 * 2 ** 22, 6, '6:0'], [2 ** 42 + 6 * 2 ** 22 + 3, 6, '6:3'], [2 ** 41 + 8, 18, '8'], [2 ** 41 + 2 ** 36 + 8, 18, '8'], [70_000, 70_000, '70000']])('%d of user %d is %s', (session, user, want) => {
    expect(sessionOf({ session, user })).toBe(want)
  })
})

describe('curveOf', () => {
  it('draws the parabola that the probe states', () => {
    const d = curveOf(probe({ fits: [fit('base', 5, 'ms'), fit('prefill speed', 10_000, 'tokens/s'), fit('bend', 50_000, 'tokens')] }))
    expect(d.curve[0]!.x).toBeCloseTo(512, 6)
    expect(d.curve[0]!.y).toBeCloseTo(5 + 51.2 + 0.1 / 50_000 * 512 * 512, 6)
    expect(d.curve[64]!.x).toBeCloseTo(65536, 3)
    expect(d.marks).toEqual([{ name: 'bend', axis: 'x', at: 50_000 }])
  })
  it('draws nothing that is not stated, known or in sight', () => {
    expect(curveOf(probe({ fits: [fit('base', 5, 'ms'), fit('prefill speed', null, 'tokens/s'), fit('bend', 9e9, 'tokens'), fit('share of ttft', 600, 'tokens')] }))).toEqual({ curve: [], marks: [] })
    expect(curveOf(probe({ points: [], fits: [fit('knee', 1, 'tokens')] }))).toEqual({ curve: [], marks: [] })
  })
  it('lays a level along the axis of its unit', () => {
    expect(curveOf(probe({ fits: [fit('flat', 20, 'ms')] })).marks).toEqual([{ name: 'flat', axis: 'y', at: 20 }])
  })
})

describe('stepsOf', () => {
  it('reads steps and takes nothing for granted', () => {
    const steps = stepsOf({ steps: [
      { users: 4, rate: null, complete: true, load: { completed_rps: 2 }, tokens: { output_per_s: 100 }, requests: { scheduled: 9, error: 1 }, latency_ms: { ttft: { p95: 12, ci95: { p95: [10, 14], p50: [null, 1] } } }, slo: { met: false, goodput_rps: 1 } },
      { rate: 2.5, latency_ms: null, slo: null }, 'x',
    ] })
    expect(steps[0]).toMatchObject({ users: 4, scheduled: 9, errors: 1, completedPerS: 2, outputPerS: 100, met: false, goodput: 1 })
    expect(steps[0]!.latency('ttft').p95).toBe(12)
    expect(steps[0]!.latency('ttft').ci('p95')).toEqual([10, 14])
    expect(steps[0]!.latency('ttft').ci('p50')).toBeNull()
    expect(steps[0]!.latency('none').p95).toBeNull()
    expect(steps.map(loadOf)).toEqual([{ n: 4, by: 'users' }, { n: 2.5, by: 'rate' }, null])
    // A run of one level has no steps: all of it is one.
    const of = (load: object, workloads: object) => stepsOf({ steps: [], load, workloads, requests: { scheduled: 5 }, latency_ms: { ttft: { p95: 12 } } }).map(s => [loadOf(s), s.latency('ttft').p95, s.scheduled])
    expect(of({ users: 4, offered_rps: 3 }, { a: {} })).toEqual([[{ n: 4, by: 'users' }, 12, 5]])
    expect(of({ users: null, offered_rps: 3 }, { a: {}, b: {} })).toEqual([[{ n: 3, by: 'rate' }, 12, 5]])
    expect(of({ users: 4, offered_rps: 3 }, { a: {}, b: {} })).toEqual([])
    expect(stepsOf(null)).toEqual([])
    expect(stepsOf({})).toEqual([])
  })
})
