import { afterEach, expect, test, vi } from 'vitest'
import type { RunDoc, Series, Snapshot, Source } from '../api'
import { Board } from './board'

afterEach(() => { vi.unstubAllGlobals(); vi.useRealTimers() })

const series = (id: number, signal: string): Series => ({ id, signal, stat: 'value', source: '', labels: '', workload: '', unit: '', kind: 'gauge', title: signal })
const snapshot = (n: number, more: Partial<Snapshot> = {}): Snapshot => ({
  n, t: n * 1000, phase: 'warmup', step: 0, steps: 1, share: 0, left_ms: 1, stopping: false, verdict: null, reasons: [], reasons_said: [], series_added: [], cells: [], bands: [], marks: [], dropped: 0,
  header: { in_flight: 1, goodput_rps: null, ttft_p95_ms: null, tpot_p95_ms: null, output_per_s: 0, failures: 0, failure_share: null, users: 1, sessions: 1, scheduled: 1, sent: 1, ok: 0, limits: [] },
  ...more,
})

/** A live run of which the server holds nothing yet; on is where its events go in. */
function live() {
  vi.useFakeTimers()
  vi.stubGlobal('requestAnimationFrame', () => 1)
  vi.stubGlobal('cancelAnimationFrame', () => {})
  vi.stubGlobal('window', globalThis)
  vi.stubGlobal('location', { pathname: '/runs/x', search: '', hash: '' })
  vi.stubGlobal('history', { replaceState() {}, pushState() {} })
  let on: (e: { type: 'snapshot'; snapshot: Snapshot } | { type: 'end' }) => void = () => {}

  const grid = (ids: number[]) => ({ from: 0, step_ms: 1000, n: 1, series: Object.fromEntries(ids.map((id) => [id, { mean: [null] }])) })
  const source = {
    offline: false,
    data: (ids: number[]) => Promise.resolve(grid(ids)),
    bands: () => Promise.resolve({ from: 0, step_ms: 1000, n: 1, figures: {} }),
    figures: () => Promise.reject(new Error('not yet')),
    series: () => Promise.resolve({ series: [], missing: [] }),
    subscribe: (_: number, f: typeof on) => { on = f; return () => {} },
    doc: () => Promise.resolve({ ...doc, live: false, span: { from: 0, to: 3000 } }),
  } as unknown as Source
  const doc = { run: { id: 'x', verdict: '' }, summary: null, span: { from: 0, to: 1 }, phases: [], planned_ms: 60_000, slo: [], workloads: [], marks: [], missing: [], probe: null, scenario: '', live: true, stopping: false } as unknown as RunDoc
  const board = new Board(source, doc, { series: [], missing: [] })
  board.open()
  return { board, source, on: (s: Snapshot) => on({ type: 'snapshot', snapshot: s }), end: () => on({ type: 'end' }) }
}

test('a view that was opened before there was any series draws what comes', async () => {
  const { board, on } = live()
  await vi.advanceTimersByTimeAsync(50)
  on(snapshot(1, { series_added: [series(7, 'client.users'), series(8, 'client.requests_in_flight')], cells: [[7, 0, 3]] }))
  await vi.advanceTimersByTimeAsync(500)
  on(snapshot(2, { cells: [[7, 1000, 4]] }))
  expect(board.frame()?.series.get(7)?.mean).toEqual([3, 4])
})

test('what came live is not laid over the series of the finished run, which have other numbers', async () => {
  const { board, source, on, end } = live()
  await vi.advanceTimersByTimeAsync(50)
  on(snapshot(1, { series_added: [series(7, 'client.users'), series(8, 'client.requests_in_flight')], cells: [[7, 0, 3], [8, 0, 99]] }))
  await vi.advanceTimersByTimeAsync(500)
  source.series = () => Promise.resolve({ series: [series(8, 'client.users')], missing: [] })
  source.data = () => Promise.resolve({ from: 0, step_ms: 1000, n: 2, series: { 8: { mean: [3, 4] } } })
  end()
  await vi.advanceTimersByTimeAsync(500)
  expect(board.live).toBe(false)
  expect(board.frame()?.series.get(8)?.mean).toEqual([3, 4])
})

test('an answer that comes late does not take away what was chosen meanwhile', async () => {
  const { board, source } = live()
  await vi.advanceTimersByTimeAsync(50)
  const waiting: (() => void)[] = []
  const band = { count: [1], min: [1], p50: [1], p95: [1], p99: [1], max: [1] }
  source.bands = () => new Promise((resolve) => waiting.push(() => resolve({ from: 0, step_ms: 1000, n: 1, figures: { ttft: band } })))
  board.showWorkload('a', true)
  board.showWorkload('b', true)
  for (const answer of waiting.splice(2)) answer() // the second reading: of all, of a, of b
  await vi.advanceTimersByTimeAsync(1)
  expect(board.base?.bands.has('ttft|b')).toBe(true)
  for (const answer of waiting) answer()
  await vi.advanceTimersByTimeAsync(1)
  expect(board.base?.bands.has('ttft|b')).toBe(true)
})

test('a step back in the browser leaves the lanes as they were chosen', () => {
  const { board } = live()
  board.choose({ keys: ['e2e', 'ttft'], heat: ['ttft'] })
  vi.stubGlobal('location', { pathname: '/runs/x', search: '?sel=0.2-0.9', hash: '' })
  board.revisit()
  expect(board.selection).toEqual({ from: 200, to: 900 })
  expect(board.isHeat('ttft')).toBe(true)
  vi.stubGlobal('location', { pathname: '/runs/x', search: '?lanes=tpot', hash: '' })
  board.revisit()
  expect(board.shown.map((l) => l.key)).toEqual(['tpot'])
})

test('an instant is no range', () => {
  const { board } = live()
  board.select({ from: 200, to: 900 })
  expect(board.selection).toEqual({ from: 200, to: 900 })
  board.select({ from: 1e9, to: 1e9 })
  expect(board.selection).toBeNull()
})

test('a range of a live run ends now, though the axis goes on', async () => {
  const { board, on } = live()
  await vi.advanceTimersByTimeAsync(50)
  const warm = { t: 1000, to: null, kind: 'phase', severity: 'info', text: 'steady' } as const
  on(snapshot(2, { phase: 'warmup' }))
  on(snapshot(3, { phase: 'steady', marks: [warm] }))
  on(snapshot(8, { phase: 'steady' }))
  expect(board.bounds.to).toBe(30_000)
  expect(board.range).toEqual({ from: 1000, to: 8000 })
  board.select({ from: 5000, to: 20_000 })
  expect(board.selection).toEqual({ from: 5000, to: 20_000 })
  expect(board.range).toEqual({ from: 5000, to: 8000 })
  board.select({ from: 15_000, to: 20_000 })
  expect(board.range).toEqual({ from: 8000, to: 8000 })
})
