import { expect, test } from 'vitest'
import type { Figures, Judged, Levels, Snapshot } from '../api'
import { beyond, held, missed, standing } from './missed'

test.each([[300, '+28\u2009% over x'], [375, '+2.2\u2009% over x'], [383, '+0.026\u2009% over x'], [383.1, ''], [400, ''], [100, '3.8 × x'], [38.31, '10 × x'], [3.831, '100 × x'], [1.6656, '230 × x'], [0, '+x over x']])('over a limit of %d', (limit, want) => expect(beyond(383.1, limit, () => 'x')).toBe(want))
const limit = (l: Partial<Judged>): Judged => ({ metric: 'ttft', stat: 'p95', limit: 500, value: 400, met: true, ...l })
test('the number of a live head is the one that its limit is held against', () => {
  const of = (...l: Partial<Judged>[]) => held(l.map(limit), 'ttft')
  expect(of({ value: 900, workload: 'docs' }, { value: 700, met: false })).toBe(700)
  expect(of({ value: 700, stat: 'p99' }, { value: 700, turn: 'later' }, { value: 700, metric: 'tpot' }, { value: 700, with_retrieval: true })).toBeNull()
  expect(of({ value: null, met: false })).toBeNull() // infinite: no number says it
})
test('what is not known is over nothing', () => expect(beyond(null, 10, () => 'x')).toBe(''))

const texts = (...of: Parameters<typeof missed>) => missed(...of).map((m) => m.text)
const levels = (own: boolean, ...limits: Judged[]): Levels => ({ met: null, goodput_rps: null, attainment: null, own, limits })
const workload = (slo: Levels | null): Figures['workloads'][string] => ({ requests: 1, errors: 0, ttft_p95_ms: null, tpot_p95_ms: null, output_per_s: null, slo })

test('a figure over the limit of a workload says by how much and of whom', () => {
  const of = (own: Judged[], run: Judged[] = []) => standing({ slo: [] }, null, { slo: run, workloads: { docs: workload(levels(true, ...own)), chat: workload(levels(false, limit({ value: 900, met: false }))) } })
  const all = of([limit({ value: 600, met: false }), limit({ value: 450, limit: 300, met: false, turn: 'later' }), limit({ metric: 'tpot', value: null, met: null })])
  expect(texts(all, /^ttf/, 'ttft')).toEqual(['docs, later turns p95 450\u2009ms: +50\u2009% over 300\u2009ms', 'docs p95 600\u2009ms: +20\u2009% over 500\u2009ms'])
  expect(missed(all, /^ttf/, 'ttft').map((m) => m.aside)).toEqual([true, true])
  expect(texts(all, /^(tpot|itl)/, 'tpot')).toEqual([]) // not measured
  expect(texts(all, /^(e2e|ttlt)/, '')).toEqual([])
  // The run's own come first; what a workload is only judged by because it has none is said once.
  expect(texts(of([limit({ value: 5000, met: false })], [limit({ value: 505, met: false })]), /^ttf/, 'ttft')).toEqual(['+1.0\u2009% over 500\u2009ms', 'docs p95 5\u2009s: 10 × 500\u2009ms'])
  // Those that decide about the run stand among its own.
  expect(of([limit({ value: 600, met: false })], [limit({ workload: 'docs', value: 600, met: false })])).toHaveLength(1)
})

test('another figure or statistic than the one shown is named, and failures are infinite', () => {
  expect(texts([limit({ stat: 'mean', value: 1000, met: false }), limit({ metric: 'ttfc', value: null, met: false })], /^ttf/, 'ttft')).toEqual(['ttfc p95: unanswered > 500\u2009ms', 'mean 1\u2009s: 2 × 500\u2009ms'])
  expect(texts([limit({ metric: 'e2e', value: 600, met: false, workload: 'docs', turn: 'first' })], /^(e2e|ttlt)/, '')).toEqual(['docs, first turns e2e p95 600\u2009ms: +20\u2009% over 500\u2009ms'])
})

test('a live run is judged by its last seconds', () => {
  const slo = [{ metric: 'ttft', stat: 'p95', limit: 500, text: '' }, { metric: 'tpot', stat: 'p95', limit: 20, text: '', workload: 'docs' }, { metric: 'e2e', stat: 'p95', limit: 20, text: '' }]
  const header = { limits: [{ value: 400, met: true }, { value: 30, met: false }, { value: null, met: null }] } as unknown as Snapshot['header']
  const all = standing({ slo }, header, { slo: [limit({ value: 900, met: false })], workloads: {} })
  expect(texts(all, /^ttf/, 'ttft')).toEqual([])
  expect(texts(all, /^(tpot|itl)/, 'tpot')).toEqual(['docs p95 30\u2009ms: +50\u2009% over 20\u2009ms'])
  expect(texts(all, /^(e2e|ttlt)/, '')).toEqual([])
})
