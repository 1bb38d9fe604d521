// The run of an offline report: everything the panel asks a server for, read
// or computed from the document that is embedded in report.html. Nothing is
// made up: what the document does not hold is null.

import {
  ApiError, type BandsGrid, type Box, type Common, type EnvelopeGrid, type Figures, type Grid, type HeatGrid, type LatencyName, type LiveEvent, type Missing, type Ms,
  type One, type PointName, type Query, type RequestRow, type Rows, type RunDoc, type RunRow, type Scatter, type ScatterQuery, type Series, type SeriesList, type Slo, type Source, type Stat,
} from '../api'
import { figureColumns, type FigureName } from './figures'
import { matches, parseFilter } from './filter'
import { fromSchedule, judge, startOf } from './limits'
import { type Ranks, ranks, weighedRanks } from './rank'

/** The embedded document. Members that are missing were not recorded. */
export interface Bundle {
  bundle: number
  doc: RunDoc
  series?: Series[]
  missing?: Missing[]
  data?: Grid
  bands?: Record<string, BandsGrid>
  heat?: Record<string, HeatGrid>
  envelope?: Record<string, EnvelopeGrid>
  figures?: Figures
  /** weight is for how many of all requests one stands, where they are a sample. */
  requests?: Partial<{ [K in keyof RequestRow]: RequestRow[K][] }> & { weight?: number[] }
  sampled?: string | null
  ones?: Record<string, One>
}

const maxPoints = 5000
const tilePixels = 8

/** The run of a bundle. */
export class BundleSource implements Source {
  readonly offline = true
  readonly id: string
  /** How the requests in the page were chosen, or null when all are there. */
  readonly sampled: string | null
  readonly #b: Bundle
  readonly #rows: RequestRow[]
  readonly #weight: (r: RequestRow) => number

  constructor(bundle: Bundle) {
    if (bundle.bundle !== 1) throw new Error(`read report: it is of version ${bundle.bundle}, this page reads version 1`)
    this.#b = bundle
    this.id = bundle.doc.run.id
    this.sampled = bundle.sampled ?? null
    const { weight, ...columns } = bundle.requests ?? {}
    this.#rows = rowsOf(columns)
    const weights = new Map(weight?.map((w, i) => [this.#rows[i], w]))
    this.#weight = r => weights.get(r) ?? 1
  }

  async runs(): Promise<RunRow[]> { return [this.#b.doc.run] }
  async doc(): Promise<RunDoc> { return this.#b.doc }
  async series(): Promise<SeriesList> { return { series: this.#b.series ?? [], missing: this.#b.missing ?? this.#b.doc.missing } }

  async data(ids: number[], from: Ms, to: Ms): Promise<Grid> {
    const g = this.#b.data
    if (g === undefined) return { from, step_ms: Math.max(to - from, 1), n: 0, series: {} }
    const cut = window(g, from, to)
    const series: Grid['series'] = {}
    for (const id of ids) {
      const s = g.series[id]
      if (s === undefined) continue
      series[id] = { mean: cut.of(s.mean), ...(s.min && { min: cut.of(s.min) }), ...(s.max && { max: cut.of(s.max) }) }
    }
    return { from: cut.from, step_ms: g.step_ms, n: cut.n, series }
  }

  // Percentiles cannot be put together, so that a bucket stays as it is.
  async bands(figures: string[], workload: string, from: Ms, to: Ms): Promise<BandsGrid> {
    const g = this.#b.bands?.[workload]
    if (g === undefined) return { from, step_ms: Math.max(to - from, 1), n: 0, figures: {} }
    const cut = window(g, from, to)
    const out: BandsGrid['figures'] = {}
    for (const name of figures) {
      const f = g.figures[name]
      if (f === undefined) continue
      out[name] = { count: cut.of(f.count), min: cut.of(f.min), p50: cut.of(f.p50), p95: cut.of(f.p95), p99: cut.of(f.p99), max: cut.of(f.max) }
    }
    return { from: cut.from, step_ms: g.step_ms, n: cut.n, figures: out, ...(g.good && { good: cut.of(g.good) }) }
  }

  async heat(figure: string, workload: string, from: Ms, to: Ms): Promise<HeatGrid> {
    const g = workload === '' ? this.#b.heat?.[figure] : undefined
    if (g === undefined) return { from, step_ms: Math.max(to - from, 1), n: 0, edges_ms: [], cells: [] }
    const cut = window(g, from, to)
    const cells: number[] = []
    for (let i = 0; i + 2 < g.cells.length; i += 3) {
      const column = g.cells[i]! - cut.first
      if (column >= 0 && column < cut.n) cells.push(column, g.cells[i + 1]!, g.cells[i + 2]!)
    }
    return { from: cut.from, step_ms: g.step_ms, n: cut.n, edges_ms: g.edges_ms, cells }
  }

  async envelope(signal: string, stat: string, from: Ms, to: Ms): Promise<EnvelopeGrid> {
    const g = this.#b.envelope?.[`${signal}/${stat}`]
    if (g === undefined) return { from, step_ms: Math.max(to - from, 1), n: 0, members: 0, min: [], median: [], max: [], worst: null }
    const cut = window(g, from, to)
    return { ...g, from: cut.from, n: cut.n, min: cut.of(g.min), median: cut.of(g.median), max: cut.of(g.max) }
  }

  async figures(from: Ms, to: Ms): Promise<Figures> {
    const whole = this.#b.figures
    if (whole !== undefined && Math.abs(from - whole.from) < 1e-3 && Math.abs(to - whole.to) < 1e-3) return whole
    const f = figuresOf(this.#rows, from, to, this.#b.doc, whole, this.sampled === null ? null : this.#weight)
    f.tokens.output_per_s = this.#rate('client.output_tokens', from, to)
    f.tokens.prompt_per_s = this.#rate('client.prompt_tokens', from, to)
    return f
  }

  async requests(q: Query): Promise<Rows> {
    const found = this.#find(q)
    const total = this.#find({ ...q, filter: '' }).length
    const rows = sorted(found, q.sort ?? 't')
    const offset = q.offset ?? 0
    return { total, matched: rows.length, rows: rows.slice(offset, offset + (q.limit ?? 200)) }
  }

  async request(n: number): Promise<One> {
    const one = this.#b.ones?.[n]
    if (one !== undefined) return one
    const row = this.#rows.find(r => r.n === n)
    if (row === undefined) throw new ApiError(404, `request ${n} is not in this report`)
    return withoutEvents(row)
  }

  async scatter(q: ScatterQuery): Promise<Scatter> {
    return scatterOf(this.#find(q), q, this.#b.doc, this.#weight)
  }

  async common(q: Query, box: Box): Promise<Common> {
    return commonOf(this.#find(q), box, this.#weight)
  }

  subscribe(_after: number, _on: (event: LiveEvent) => void): () => void {
    return () => {}
  }

  /** The mean rate of a signal over the whole buckets of its course inside a range, as a server says it of its cells. */
  #rate(signal: string, from: Ms, to: Ms): number | null {
    const g = this.#b.data
    const id = this.#b.series?.find(s => s.signal === signal && s.stat === 'rate' && s.workload === '' && s.source === '' && s.labels === '')?.id
    const course = id === undefined ? undefined : g?.series[id]
    if (g === undefined || course === undefined) return null
    const first = Math.max(Math.ceil((from - g.from) / g.step_ms - 1e-6), 0)
    const end = Math.min(Math.floor((to - g.from) / g.step_ms + 1e-6), g.n)
    const known = course.mean.slice(first, end).filter((v): v is number => v !== null)
    return known.length > 0 ? known.reduce((a, b) => a + b, 0) / known.length : null
  }

  #find(q: Query): RequestRow[] {
    const filter = parseFilter(q.filter ?? '')
    const from = q.from ?? -Infinity
    const to = q.to ?? Infinity
    return this.#rows.filter(r => r.t >= from && r.t < to && matches(filter, r))
  }
}

function rowsOf(columns: Partial<{ [K in keyof RequestRow]: RequestRow[K][] }>): RequestRow[] {
  const names = Object.keys(columns) as (keyof RequestRow)[]
  const n = columns.n?.length ?? 0
  const rows: RequestRow[] = []
  for (let i = 0; i < n; i++) {
    const row: Record<string, unknown> = {
      n: 0, t: 0, end: null, workload: '', session: 0, turn: 0, user: 0, step: 0, phase: '', target: 0, status: 'ok', error_kind: '', http_status: null, finish: '',
      ttft_ms: null, ttfc_ms: null, tpot_ms: null, e2e_ms: null, ttlt_ms: null, retrieval_ms: null, send_lag_ms: null, prompt_tokens: null, cached_tokens: null, output_tokens: null,
    }
    for (const name of names) {
      const v = columns[name]![i]
      if (v !== undefined) row[name] = v
    }
    rows.push(row as unknown as RequestRow)
  }
  return rows
}

/** The buckets of a grid that overlap a range. */
function window(g: { from: Ms; step_ms: Ms; n: number }, from: Ms, to: Ms): { first: number; from: Ms; n: number; of: <T>(list: T[]) => T[] } {
  const first = Math.min(Math.max(Math.floor((from - g.from) / g.step_ms), 0), g.n)
  const end = Math.min(Math.max(Math.ceil((to - g.from) / g.step_ms), first), g.n)
  return { first, from: g.from + first * g.step_ms, n: end - first, of: list => list.slice(first, end) }
}

/** Sorts by a column (`-` for descending); unknown values come last, ties in the order of the requests. */
function sorted(rows: RequestRow[], by: string): RequestRow[] {
  const down = by.startsWith('-')
  const name = down ? by.slice(1) : by
  const column = (Object.hasOwn(figureColumns, name) ? figureColumns[name as FigureName] : name) as keyof RequestRow
  return rows.slice().sort((a, b) => {
    const x = a[column] ?? null
    const y = b[column] ?? null
    if (x === y) return a.n - b.n
    if (x === null) return 1
    if (y === null) return -1
    return ((x < y ? -1 : 1) * (down ? -1 : 1)) || a.n - b.n
  })
}

/** Whether streams came in one burst, as the run's own check says; without one they may have. */
function buffered(doc: RunDoc): boolean {
  const checks = (doc.summary as { run?: { checks?: { check: string; value: number | null }[] } } | null)?.run?.checks
  const check = checks?.find(c => c.check === 'buffered_stream')
  return check === undefined || (check.value ?? 0) > 0
}

/** The parts of the steady windows in a range or, where it touches none, the range. */
function windowsIn(doc: RunDoc, from: Ms, to: Ms): { from: Ms; to: Ms; has: (r: RequestRow) => boolean }[] {
  const near = 1e-3 // the digits that a time has
  const steady = doc.phases.map(p => ({ ...p, to: p.to ?? Infinity })).filter(p => p.name === 'steady' && Math.max(from, p.from) < Math.min(to, p.to) - near)
  if (steady.length === 0) return [{ from, to, has: r => r.t >= from && r.t < to }]
  return steady.map(p => {
    // Where the range has the end of a window its requests are in it, whatever their time says.
    const low = from <= p.from + near ? -Infinity : from
    const high = to >= p.to - near ? Infinity : to
    return { from: Math.max(from, p.from), to: Math.min(to, p.to), has: r => r.phase === 'steady' && r.step === p.step && r.t >= low && r.t < high }
  })
}

/**
 * The figures of the requests that were scheduled in a range, as far as it is steady; of a sample, estimates in which
 * each stands for as many as its weight says. What needs the time of every token (itl) is
 * not in a report and null. Whole are those of the run.
 */
function figuresOf(all: readonly RequestRow[], from: Ms, to: Ms, doc: RunDoc, whole: Figures | undefined, weight: ((r: RequestRow) => number) | null = null): Figures {
  const parts = windowsIn(doc, from, to)
  const rows = all.filter(r => parts.some(p => p.has(r)))
  const seconds = parts.reduce((n, p) => n + p.to - p.from, 0) / 1000
  const rate = (n: number): number | null => (seconds > 0 ? n / seconds : null)
  const size = (list: readonly RequestRow[]): number => (weight === null ? list.length : Math.round(list.reduce((n, r) => n + weight(r), 0)))
  const dist = (list: readonly RequestRow[], of: (r: RequestRow) => number | null): Ranks =>
    weight === null ? ranks(list.map(of)) : weighedRanks(list.map(r => ({ v: of(r), w: weight(r) })))
  const ok = rows.filter(r => r.status === 'ok')
  const stat = (of: (r: RequestRow) => number | null): Stat => dist(ok, of)
  const count = (s: string) => size(rows.filter(r => r.status === s))
  const sum = (of: (r: RequestRow) => number | null) => Math.round(rows.reduce((n, r) => n + (of(r) ?? 0) * (weight?.(r) ?? 1), 0))
  const byError: Record<string, number> = {}
  for (const r of rows) if (r.error_kind !== '' && r.status === 'error') byError[r.error_kind] ??= size(rows.filter(x => x.status === 'error' && x.error_kind === r.error_kind))
  const latency: Partial<Record<LatencyName, Stat | null>> = {
    ttft: stat(r => r.ttft_ms), ttfc: stat(r => r.ttfc_ms), tpot: stat(r => r.tpot_ms), itl: null, e2e: stat(r => r.e2e_ms),
    ttft_from_schedule: stat(r => fromSchedule(r, r.ttft_ms)), e2e_from_schedule: stat(r => fromSchedule(r, r.e2e_ms)), send_lag: dist(rows, r => r.send_lag_ms),
  }
  const judged = (limits: readonly Slo[], list: readonly RequestRow[]) => judge(limits, list, seconds, weight ?? (() => 1), buffered(doc))
  // The limits that come with workloads are the run's where it was judged by them.
  const runs = doc.slo.filter(l => !l.workload || (whole?.slo.some(w => w.workload) ?? false))
  const levels = runs.length > 0 ? judged(runs, rows) : null
  const workloads: Figures['workloads'] = {}
  for (const name of doc.workloads) {
    const own = rows.filter(r => r.workload === name)
    if (own.length === 0) continue
    const good = own.filter(r => r.status === 'ok')
    const limits = doc.slo.filter(l => l.workload === name)
    const by = limits.length > 0 ? limits : doc.slo.filter(l => !l.workload)
    workloads[name] = {
      requests: size(own), errors: size(own.filter(r => r.status === 'error')),
      ttft_p95_ms: dist(good, r => r.ttft_ms).p95, tpot_p95_ms: dist(good, r => r.tpot_ms).p95, output_per_s: null,
      slo: by.length > 0 ? { ...judged(by, own), ...(limits.length > 0 && { own: true }) } : null,
    }
  }
  return {
    from, to,
    requests: { scheduled: size(rows), sent: size(rows.filter(r => r.status !== 'incomplete' || r.send_lag_ms !== null)), ok: size(ok), error: count('error'), cancelled: count('cancelled'), incomplete: count('incomplete'), by_error: byError },
    tokens: { prompt: sum(r => r.prompt_tokens), cached: sum(r => r.cached_tokens), output: sum(r => r.output_tokens), output_per_s: null, prompt_per_s: null },
    latency_ms: latency,
    offered_rps: rate(size(rows)), achieved_rps: null,
    completed_rps: rate(size(all.filter(r => r.status === 'ok' && r.end !== null && parts.some(p => r.end! >= p.from && r.end! < p.to)))),
    goodput_rps: levels?.goodput_rps ?? null, attainment: levels?.attainment ?? null, slo: levels?.limits ?? [],
    workloads,
  }
}

function withoutEvents(row: RequestRow): One {
  const start = startOf(row)
  const after = (v: number | null): Ms | null => (start === null || v === null ? null : start + v)
  const points: Record<PointName, Ms | null> = {
    scheduled: row.t, start, connected: null, sent: null, headers: null, first_event: null, first_token: after(row.ttft_ms), first_content: after(row.ttfc_ms),
    last_token: after(row.ttlt_ms), end: row.end, retrieval_start: null, retrieval_end: null,
  }
  return { row, points, events: { t: [], tokens: [], bounded: [] }, message: '', flags: ['not_in_report'], kernel_times: false, remote: '', text: null, lost: null, server: [], engine: null }
}

const valueOf = (r: RequestRow, figure: string): number | null =>
  Object.hasOwn(figureColumns, figure) ? r[figureColumns[figure as FigureName]] : null

function scatterOf(found: RequestRow[], q: ScatterQuery, doc: RunDoc, weight: (r: RequestRow) => number): Scatter {
  const byStatus = q.color === 'status'
  const colors = byStatus ? ['ok', 'error', 'cancelled', 'incomplete'] : doc.workloads
  const colorOf = (r: RequestRow) => Math.max(colors.indexOf(byStatus ? r.status : r.workload), 0)
  const dots = found.map(r => ({ r, y: valueOf(r, q.y) })).filter((d): d is { r: RequestRow; y: number } => d.y !== null)
  const points: Scatter['points'] = { n: [], x: [], y: [], c: [] }
  const put = (r: RequestRow, y: number) => {
    points.n.push(r.n)
    points.x.push(r.t)
    points.y.push(y)
    points.c.push(colorOf(r))
  }
  if (dots.length <= maxPoints) {
    for (const d of dots) put(d.r, d.y)
    return { matched: found.length, without: found.length - dots.length, colors, points, tiles: null, y_log: true }
  }
  // Tiles of equal size on a logarithmic scale; what is not above 0 lies in the lowest row.
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity]
  for (const { r, y } of dots) {
    x0 = Math.min(x0, r.t)
    x1 = Math.max(x1, r.t)
    if (y > 0) y0 = Math.min(y0, y)
    y1 = Math.max(y1, y)
  }
  if (!(y1 > 0)) [y0, y1] = [1, 2]
  const columns = Math.max(Math.ceil((q.width ?? 800) / tilePixels), 1)
  const rows = Math.max(Math.ceil((q.height ?? 240) / tilePixels), 1)
  const dx = (x1 - x0) / columns || 1
  const dy = Math.log(y1 / y0) / rows || 1
  interface Tile { colors: number[]; count: number; low: { r: RequestRow; y: number }; high: { r: RequestRow; y: number } }
  const tiles = new Map<number, Tile>()
  for (const d of dots) {
    const i = Math.min(Math.floor((d.r.t - x0) / dx), columns - 1)
    const j = d.y > 0 ? Math.min(Math.max(Math.floor(Math.log(d.y / y0) / dy), 0), rows - 1) : 0
    const key = j * columns + i
    let t = tiles.get(key)
    if (t === undefined) tiles.set(key, (t = { colors: colors.map(() => 0), count: 0, low: d, high: d }))
    const c = colorOf(d.r)
    const w = weight(d.r)
    t.count += w
    t.colors[c] = (t.colors[c] ?? 0) + w
    if (d.y < t.low.y) t.low = d
    if (d.y > t.high.y) t.high = d
  }
  const out: NonNullable<Scatter['tiles']> = { x0: [], x1: [], y0: [], y1: [], c: [], count: [] }
  for (const [key, t] of tiles) {
    const i = key % columns
    const j = Math.floor(key / columns)
    out.x0.push(x0 + i * dx)
    out.x1.push(x0 + (i + 1) * dx)
    out.y0.push(y0 * Math.exp(j * dy))
    out.y1.push(y0 * Math.exp((j + 1) * dy))
    out.c.push(t.colors.indexOf(Math.max(...t.colors)))
    out.count.push(Math.round(t.count))
    put(t.low.r, t.low.y)
    if (t.high.r !== t.low.r) put(t.high.r, t.high.y)
  }
  return { matched: found.length, without: found.length - dots.length, colors, points, tiles: out, y_log: true }
}

/** What the requests in a box share against the rest, ranked by how much more often it is so among them. */
export function commonOf(found: readonly RequestRow[], box: Box, weight: (r: RequestRow) => number = () => 1): Common {
  const traits: [string, (r: RequestRow) => string | null][] = [
    ['workload', r => r.workload], ['status', r => r.status], ['error', r => r.error_kind || null], ['phase', r => r.phase], ['step', r => String(r.step)], ['turn', r => String(r.turn)],
    ['target', r => String(r.target)], ['user', r => String(r.user)], ['session', r => String(r.session)], ['finish', r => r.finish || null],
    ['prompt', r => power(r.prompt_tokens)], ['cached', r => power(r.cached_tokens)], ['output', r => power(r.output_tokens)],
  ]
  const within = (r: RequestRow): boolean => {
    const y = valueOf(r, box.y)
    return y !== null && r.t >= box.xmin && r.t <= box.xmax && y >= box.ymin && y <= box.ymax
  }
  const inside = found.filter(within)
  const outside = found.filter(r => !within(r))
  const [chosen, others] = [inside, outside].map(list => list.reduce((n, r) => n + weight(r), 0)) as [number, number]
  const bars: Common['bars'] = []
  for (const [field, of] of traits) {
    const counts = new Map<string, [number, number]>()
    const add = (rows: readonly RequestRow[], i: 0 | 1) => {
      for (const r of rows) {
        const v = of(r)
        if (v === null) continue
        const c = counts.get(v) ?? [0, 0]
        c[i] += weight(r)
        counts.set(v, c)
      }
    }
    add(inside, 0)
    add(outside, 1)
    for (const [value, [selected, rest]] of counts) {
      if (selected === 0) continue
      bars.push({ field, value, selected: Math.round(selected), rest: Math.round(rest), selected_share: selected / chosen, rest_share: others > 0 ? rest / others : 0 })
    }
  }
  const lift = (b: Common['bars'][number]) => b.selected_share - b.rest_share
  bars.sort((a, b) => lift(b) - lift(a))
  return { selected: Math.round(chosen), rest: Math.round(others), bars: bars.filter(b => lift(b) > 0.01).slice(0, 20) }
}

/** The power of two that a count of tokens lies under, as a range. */
function power(v: number | null): string | null {
  if (v === null) return null
  if (v < 1) return '0'
  const lo = 2 ** Math.floor(Math.log2(v))
  return `${lo}..${lo * 2 - 1}`
}
