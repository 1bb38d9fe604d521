import { describe, expect, it } from 'vitest'
import type { RequestRow, RunDoc, Source } from '../api'
import { type Bundle, BundleSource, commonOf } from './bundle'
import { figureColumns, termOf } from './figures'
import { matches, parseFilter } from './filter'
import { ranks, weighedRanks } from './rank'

const doc = { run: { id: 'r', name: 'r' }, workloads: ['a', 'b'], slo: [], phases: [], missing: [] } as unknown as RunDoc

function bundle(n: number): Bundle {
  const rows = Array.from({ length: n }, (_, i) => ({
    n: i, t: i * 10, end: i * 10 + 5 + 1000, workload: i % 3 === 0 ? 'b' : 'a', status: i % 10 === 9 ? 'error' : 'ok', error_kind: i % 10 === 9 ? 'overloaded' : '',
    ttft_ms: i % 10 === 9 ? null : 100 + i, e2e_ms: i % 10 === 9 ? null : 1000, output_tokens: 7, turn: i % 2,
  }))
  const requests: Record<string, unknown[]> = {}
  for (const k of Object.keys(rows[0] ?? {}) as (keyof (typeof rows)[number])[]) requests[k] = rows.map(r => r[k])
  return { bundle: 1, doc, requests: requests as Bundle['requests'] & object }
}

describe('ranks', () => {
  it('are nearest ranks, as in the report', () => {
    expect(ranks([5, 1, 4, 2, 3])).toMatchObject({ count: 5, mean: 3, min: 1, p50: 3, p75: 4, p95: 5, max: 5 })
    expect(ranks(Array.from({ length: 100 }, (_, i) => i + 1))).toMatchObject({ p50: 50, p90: 90, p95: 95, p99: 99 })
    expect(ranks([null, 7, null])).toMatchObject({ count: 1, p50: 7, p99: 7 })
    expect(ranks([])).toMatchObject({ count: 0, mean: null, p50: null })
  })
})

describe('weighedRanks', () => {
  const list = Array.from({ length: 997 }, (_, i) => (i * 7919) % 997)
  it('are the same with weights of 1', () => {
    expect(weighedRanks(list.map(v => ({ v, w: 1 })))).toEqual(ranks(list))
    expect(weighedRanks([{ v: null, w: 1 }])).toEqual(ranks([]))
  })
  it('are those of all when one stands for several', () => {
    const few = list.filter(v => v % 10 === 4).map(v => ({ v, w: 10 }))
    const extremes = [0, 996].map(v => ({ v, w: 1 }))
    const got = weighedRanks([...few, ...extremes])
    expect(got).toMatchObject({ min: 0, max: 996 })
    for (const k of ['p50', 'p90', 'p99', 'mean'] as const) expect(Math.abs(got[k]! - ranks(list)[k]!)).toBeLessThanOrEqual(10)
  })
})

describe('the offline run', () => {
  const s = new BundleSource(bundle(100))
  it('finds, sorts and pages requests', async () => {
    const r = await s.requests({ filter: 'workload:b status:ok', sort: '-ttft', limit: 2, offset: 1 })
    expect(r).toMatchObject({ total: 100, matched: 30 })
    expect(r.rows.map(x => x.n)).toEqual([93, 90])
    expect((await s.requests({ sort: '-ttft', limit: 100 })).rows.slice(-10).every(x => x.ttft_ms === null)).toBe(true)
    expect(await s.requests({ from: 100, to: 200, filter: 'workload:a' })).toMatchObject({ total: 10, matched: 7 })
  })
  it('computes figures of a range', async () => {
    const f = await s.figures(0, 1000)
    expect(f.requests).toMatchObject({ scheduled: 100, ok: 90, error: 10, by_error: { overloaded: 10 } })
    expect(f.latency_ms.ttft).toMatchObject({ count: 90, min: 100, p50: 148, max: 198 })
    expect(f.latency_ms.ttft_from_schedule).toMatchObject({ count: 90, min: 105 })
    expect(f.offered_rps).toBe(100)
    expect(f.workloads.a?.requests).toBe(66)
    expect((await s.figures(5000, 6000)).latency_ms.ttft).toMatchObject({ count: 0, p95: null })
  })
  it('estimates figures from a sample by weights', async () => {
    const b = bundle(100)
    const f = await new BundleSource({ ...b, sampled: 'one in 5', requests: { ...b.requests, weight: Array.from({ length: 100 }, () => 5) } }).figures(0, 1000)
    expect(f.requests).toMatchObject({ scheduled: 500, ok: 450, error: 50, by_error: { overloaded: 50 } })
    expect(f.latency_ms.ttft).toMatchObject({ count: 450, p50: 148, max: 198 })
    expect(f.tokens.output).toBe(3500)
    expect(f.offered_rps).toBe(500)
  })
  it('holds the limits against a range', async () => {
    const slo = [
      { metric: 'ttft', stat: 'p90', limit: 190, text: '' }, { metric: 'ttft', stat: 'p50', limit: 150, text: '', from_schedule: true }, { metric: 'e2e', stat: 'mean', limit: 1e6, text: '' },
      { metric: 'tpot', stat: 'p95', limit: 1, text: '' }, { metric: 'ttft', stat: 'max', limit: 500, text: '', workload: 'b', turn: 'later' as const }, { metric: 'e2e', stat: 'p95', limit: 1, text: '', workload: 'none' },
    ]
    const own = (value: number | null) => ({ ...doc, slo, summary: { run: { checks: [{ check: 'buffered_stream', value }] } } }) as unknown as RunDoc
    const f = await new BundleSource({ ...bundle(100), doc: own(0) }).figures(0, 1000)
    // 10 of 100 failed and are infinite: p90 is the largest of the others, and there is no mean.
    expect(f.slo).toEqual([
      { metric: 'ttft', stat: 'p90', limit: 190, value: 198, met: false }, { metric: 'ttft', stat: 'p50', limit: 150, value: 159, met: false, from_schedule: true },
      { metric: 'e2e', stat: 'mean', limit: 1e6, value: null, met: false }, { metric: 'tpot', stat: 'p95', limit: 1, value: null, met: null },
    ])
    // Good are those within 150 ms of their schedule, 5 ms of which went by before the start: 46, without four that failed.
    expect(f).toMatchObject({ attainment: 0.42, goodput_rps: 42 })
    expect(f.workloads.b!.slo).toMatchObject({ own: true, limits: [{ metric: 'ttft', stat: 'max', value: null, met: false }] })
    expect(f.workloads.a!.slo!.limits).toHaveLength(4)
    // The spacing of buffered streams is not known one by one.
    const g = await new BundleSource({ ...bundle(100), doc: own(0.01) }).figures(0, 1000)
    expect(g.slo[3]).toEqual({ metric: 'tpot', stat: 'p95', limit: 1, value: null, met: null, absent: true })
    expect(g).toMatchObject({ attainment: null, goodput_rps: null })
    // Where the run is judged by the limits of workloads, so is a part of it.
    const counted = { from: 0, to: 9, slo: [{ workload: 'b' }] } as never
    const h = await new BundleSource({ ...bundle(100), doc: own(0), figures: counted }).figures(0, 500)
    expect(h.slo.map(l => l.met)).toEqual([true, true, false, null, false, null])
  })
  it('counts what an abandoned request had waited, and each of a sample for several', async () => {
    const slo = [{ metric: 'ttft', stat: 'p50', limit: 100, text: '' }]
    const requests = { n: [0, 1, 2], t: [0, 10, 20], end: [200, 50, 300], status: ['ok', 'cancelled', 'cancelled'] as RequestRow['status'][], ttft_ms: [50, null, null], e2e_ms: [200, null, null], send_lag_ms: [0, 0, 5] }
    const own = { ...doc, slo } as unknown as RunDoc
    expect((await new BundleSource({ bundle: 1, doc: own, requests }).figures(0, 100)).slo[0]).toMatchObject({ value: 50, met: true }) // one of two
    const many = await new BundleSource({ bundle: 1, doc: own, sampled: 'some', requests: { ...requests, weight: [1, 1, 3] } }).figures(0, 100)
    expect(many.slo[0]).toMatchObject({ value: null, met: false })
    expect(many.attainment).toBe(0.2)
  })
  it('takes of a range what is steady', async () => {
    const b = bundle(100)
    const phases = [{ name: 'warmup', step: 0, from: 0, to: 200 }, { name: 'steady', step: 0, from: 200, to: 700 }]
    const requests = { ...b.requests, phase: Array.from({ length: 100 }, (_, i) => (i < 20 ? 'warmup' : i < 70 ? 'steady' : 'drain')) }
    const f = await new BundleSource({ ...b, requests, doc: { ...doc, phases } as unknown as RunDoc }).figures(100, 600)
    expect(f.requests.scheduled).toBe(40)
    expect(f.offered_rps).toBe(100)
  })
  it('takes token rates from the whole buckets in a range', async () => {
    const series = [{ id: 7, signal: 'client.output_tokens', stat: 'rate', source: '', labels: '', workload: '', unit: 'tokens/s', kind: 'rate' as const, title: '' }]
    const b = new BundleSource({ ...bundle(1), series, data: { from: 0, step_ms: 100, n: 5, series: { 7: { mean: [1, 10, null, 30, 100] } } } })
    expect((await b.figures(100, 400)).tokens).toMatchObject({ output_per_s: 20, prompt_per_s: null })
    expect((await b.figures(150, 450)).tokens.output_per_s).toBe(30)
    expect((await b.figures(110, 190)).tokens.output_per_s).toBeNull()
  })
  it('gives the figures of the report for its own window', async () => {
    const own = { from: 0, to: 500 } as never
    expect(await new BundleSource({ ...bundle(3), figures: own }).figures(0, 500)).toBe(own)
  })
  it('draws few as points and many as tiles that lose none', async () => {
    const few = await s.scatter({ y: 'ttft', color: 'workload' })
    expect(few).toMatchObject({ matched: 100, without: 10, tiles: null })
    expect(few.points.n).toHaveLength(90)
    const many = await new BundleSource(bundle(12_000)).scatter({ y: 'ttft', color: 'status', width: 640, height: 240 })
    expect(many).toMatchObject({ matched: 12_000, without: 1200 })
    expect(many.tiles!.count.reduce((a, b) => a + b)).toBe(10_800)
    expect(many.points.n).toContain(0)
    expect(many.points.n).toContain(11_998)
    expect(many.points.n.length).toBeLessThanOrEqual(2 * many.tiles!.count.length)
    many.points.n.forEach((n, i) => expect(many.points.x[i]).toBe(n * 10))
  })
  it('says what chosen ones have in common', async () => {
    const c = await s.common({}, { y: 'ttft', xmin: 0, xmax: 1e6, ymin: 100, ymax: 1e6 })
    expect(c).toMatchObject({ selected: 90, rest: 10 })
    expect(c.bars[0]).toMatchObject({ field: 'status', value: 'ok', selected_share: 1, rest_share: 0 })
    expect(commonOf([], { y: 'ttft', xmin: 0, xmax: 1, ymin: 0, ymax: 1 })).toEqual({ selected: 0, rest: 0, bars: [] })
  })
  it('has a request without its events', async () => {
    const one = await s.request(3)
    expect(one.points).toMatchObject({ scheduled: 30, start: 35, first_token: 138, end: 1035, sent: null })
    await expect(s.request(1000)).rejects.toMatchObject({ status: 404 })
  })
  it('cuts grids without putting percentiles together', async () => {
    const band = { count: [1, 2, 3, 4], min: [1, 1, 1, 1], p50: [1, 2, 3, 4], p95: [1, 2, 3, 4], p99: [1, 2, 3, 4], max: [1, 2, 3, 4] }
    const g: Source = new BundleSource({
      ...bundle(1), bands: { '': { from: 0, step_ms: 1000, n: 4, figures: { ttft: band } } }, data: { from: 0, step_ms: 1000, n: 4, series: { 3: { mean: [1, null, 3, 4] } } },
      heat: { ttft: { from: 0, step_ms: 1000, n: 4, edges_ms: [1, 2, 3], cells: [0, 0, 5, 2, 1, 7] } },
    })
    expect(await g.bands(['ttft', 'e2e'], '', 1000, 2500, 600)).toMatchObject({ from: 1000, n: 2, figures: { ttft: { p50: [2, 3] } } })
    expect((await g.data([3, 4], 500, 1500, 600)).series).toEqual({ 3: { mean: [1, null] } })
    expect((await g.heat('ttft', '', 2000, 4000, 600)).cells).toEqual([0, 1, 7])
    expect((await g.bands(['ttft'], 'a', 0, 1, 600)).n).toBe(0)
  })
  it('refuses another version', () => {
    expect(() => new BundleSource({ bundle: 2, doc })).toThrow(/version 2/)
  })
})

describe('termOf', () => {
  it('takes in the bounds it is given', () => {
    for (const [name, lo, hi] of [['ttft', 12.3456, 98.7654], ['send_lag', 0, 0.0004], ['prompt', 0.2, 400]] as const) {
      const f = parseFilter(termOf(name, lo, hi))
      expect(f.errors).toEqual([])
      const column = figureColumns[name]
      for (const v of name === 'prompt' ? [1, 400] : [lo, hi, (lo + hi) / 2]) expect(matches(f, { [column]: v } as unknown as RequestRow), `${name} ${v}`).toBe(true)
      expect(matches(f, { [column]: hi + 2 } as unknown as RequestRow)).toBe(false)
    }
  })
})
