// The panel's contract with the server: the shapes of its JSON, and Source, the one interface
// through which a run is read, whether from a server or from an offline report.

import type { Said } from './i18n/told'

/** Milliseconds since the run's start instant. */
export type Ms = number
type N = number | null

export interface Version { version: string; panel: number; readonly: boolean; /** Whether this panel asks for a token. */ token?: boolean }

export interface RunRow {
  id: string; name: string; started: string; state: string; live: boolean; duration_s: N
  verdict: Verdict | null; model: string; target: string; workloads: string[]; load: string
  tags: Record<string, string>; note: string
  requests: N; errors: N; error_share: N; ttft_p95_ms: N; tpot_p95_ms: N; e2e_p95_ms: N
  output_per_s: N; goodput_rps: N; slo_met: boolean | null
  /** What is wrong with the files of the run; its state is unreadable where that is run.json. */
  problem?: { file: string; text: string; fix: string } | null
}
export type Verdict = 'valid' | 'client-bound' | 'invalid'

export interface Phase { name: 'warmup' | 'steady' | 'drain'; step: number; from: Ms; to: Ms | null }
/** Workload and turn say of whose requests alone it is; aside, that the run is not judged by it. */
export interface Slo { metric: string; stat: string; limit: number; text: string; workload?: string; turn?: 'first' | 'later'; from_schedule?: boolean; with_retrieval?: boolean; aside?: boolean }
/** One limit held against requests; met is null when it was not measured, value then too, and when it is infinite. Absent: a page without a server does not hold what it takes. */
export interface Judged { absent?: boolean; metric: string; stat: string; limit: number; value: N; met: boolean | null; workload?: string; turn?: 'first' | 'later'; from_schedule?: boolean; with_retrieval?: boolean; aside?: boolean }
/** Own: by limits that came with the workload. */
export interface Levels { met: boolean | null; goodput_rps: N; attainment: N; limits: Judged[]; own?: boolean }
export interface Mark { t: Ms; to: Ms | null; kind: 'phase' | 'step' | 'threshold' | 'note' | 'lost' | 'finding'; severity: 'info' | 'note' | 'fail'; text: string; said?: Said }
export interface Missing { group: 'engine' | 'accelerator' | 'network' | 'host'; signal: string; why: string; fix: string; said?: Said; fix_said?: Said }

export interface RunDoc {
  run: RunRow
  /** summary.json as it is. */
  summary: Record<string, unknown> | null
  span: { from: Ms; to: Ms }
  phases: Phase[]
  planned_ms: Ms | null
  slo: Slo[]
  /** The order is the colour. */
  workloads: string[]
  marks: Mark[]
  missing: Missing[]
  probe: ProbeDoc | null
  scenario: string
  live: boolean
  stopping: boolean
}

export interface ProbeDoc {
  schema: string; probe: string; question: string
  x: { name: string; unit: string }; y: { name: string; unit: string }
  points: { x: number; y: number; lo: N; hi: N; series: string; n: number }[]
  fits: { name: string; value: N; lo: N; hi: N; unit: string; text: string; ok: boolean }[]
  notes: string[]
}

export interface Series {
  id: number; signal: string; stat: string; source: string; labels: string; workload: string
  unit: string; kind: 'gauge' | 'rate' | 'share' | 'state' | 'duration'; title: string
}
export interface SeriesList { series: Series[]; missing: Missing[] }

/** t_i = from + i*step_ms; where a bucket is one cell, min and max are left out. */
export interface Grid { from: Ms; step_ms: Ms; n: number; series: Record<string, GridSeries> }
export interface GridSeries { mean: N[]; min?: N[]; max?: N[] }

export interface BandsGrid { from: Ms; step_ms: Ms; n: number; figures: Record<string, Band>; good?: number[] }
export interface Band { count: N[]; min: N[]; p50: N[]; p95: N[]; p99: N[]; max: N[] }

export interface HeatGrid { from: Ms; step_ms: Ms; n: number; edges_ms: number[]; /** col, row, count triples */ cells: number[] }

export interface EnvelopeGrid {
  from: Ms; step_ms: Ms; n: number; members: number
  min: N[]; median: N[]; max: N[]
  worst: { source: string; labels: string; value: N } | null
}

export interface Stat { count: number; mean: N; min: N; p50: N; p75: N; p90: N; p95: N; p99: N; max: N }
export type LatencyName = 'ttft' | 'ttfc' | 'tpot' | 'itl' | 'e2e' | 'ttft_from_schedule' | 'e2e_from_schedule' | 'send_lag'

export interface Figures {
  from: Ms; to: Ms
  requests: { scheduled: number; sent: number; ok: number; error: number; cancelled: number; incomplete: number; by_error: Record<string, number> }
  tokens: { prompt: number; cached: number; output: number; output_per_s: N; prompt_per_s: N }
  latency_ms: Partial<Record<LatencyName, Stat | null>>
  offered_rps: N; achieved_rps: N; completed_rps: N; goodput_rps: N; attainment: N
  slo: Judged[]
  workloads: Record<string, { requests: number; errors: number; ttft_p95_ms: N; tpot_p95_ms: N; output_per_s: N; slo: Levels | null }>
}

export type Status = 'ok' | 'error' | 'cancelled' | 'incomplete'
export interface RequestRow {
  n: number; t: Ms; end: Ms | null; workload: string; session: number; turn: number; user: number; step: number
  phase: string; target: number; status: Status; error_kind: string; http_status: N; finish: string
  ttft_ms: N; ttfc_ms: N; tpot_ms: N; e2e_ms: N; ttlt_ms: N; retrieval_ms: N; send_lag_ms: N
  prompt_tokens: N; cached_tokens: N; output_tokens: N
}
export interface Rows { total: number; matched: number; rows: RequestRow[] }

/** What a list of requests is asked for. The filter language: words, all of which must hold: `workload:legal status:error ttft>2s -phase:warmup`. */
export interface Query { from?: Ms; to?: Ms; filter?: string; sort?: string; limit?: number; offset?: number }

export type PointName = 'scheduled' | 'start' | 'connected' | 'sent' | 'headers' | 'first_event' | 'first_token' | 'first_content' | 'last_token' | 'end' | 'retrieval_start' | 'retrieval_end'
export interface One {
  row: RequestRow
  points: Record<PointName, Ms | null>
  events: { t: Ms[]; tokens: N[]; bounded: boolean[] }
  message: string; flags: string[]; kernel_times: boolean; remote: string; text: string[] | null
  /** Why the record cannot be read: then events, message and text are missing. */
  lost: string | null
  server: { signal: string; stat: string; unit: string; mean: N; max: N }[]
  engine: { queue_ms: N; prefill_ms: N; decode_ms: N } | null
}

export interface ScatterQuery extends Query { y: string; color?: 'workload' | 'status'; width?: number; height?: number }
/** Up to 5,000 matches: all as points; above: tiles of counts, and the extreme points of each tile. */
export interface Scatter {
  matched: number; /** matches that lack the figure */ without?: number; colors: string[]
  points: { n: number[]; x: Ms[]; y: number[]; c: number[] }
  tiles: { x0: Ms[]; x1: Ms[]; y0: number[]; y1: number[]; c: number[]; count: number[] } | null
  y_log: boolean
}

export interface Box { y: string; xmin: Ms; xmax: Ms; ymin: number; ymax: number }
export interface Common { selected: number; rest: number; bars: { field: string; value: string; selected_share: number; rest_share: number; selected: number; rest: number }[] }

export interface Snapshot {
  n: number; t: Ms; phase: string; step: number; steps: number; share: N; left_ms: Ms | null; stopping: boolean
  header: {
    in_flight: number; goodput_rps: N; ttft_p95_ms: N; tpot_p95_ms: N; output_per_s: number; failures: number
    failure_share: N; users: number; sessions: number; scheduled: number; sent: number; ok: number
    /** One for each limit of the document, in its order; value null and met false: infinite. */
    limits: { value: N; met: boolean | null }[]
  }
  verdict: string | null; reasons: string[]; reasons_said: Said[]
  series_added: Series[]
  cells: [id: number, t: Ms, value: number][]
  bands: { figure: string; workload: string; t: Ms; count: N; min: N; p50: N; p95: N; p99: N; max: N }[]
  marks: Mark[]
  dropped: number
}

export interface ScenarioError { line: number; column: number; field: string; text: string; fix: string; said?: Said }
/** The plan of a run, as `run --dry-run` prints it. */
export type Plan = Record<string, unknown>

export interface Comparison {
  runs: RunRow[]
  rows: { metric: string; unit: string; better: 'lower' | 'higher' | null; values: N[]; ci: ([number, number] | null)[]; change: N[]; clear: (boolean | null)[] }[]
}

export interface WorkloadRow { name: string; title: string; family: string; kind: 'vertical' | 'probe'; stresses: string[] }
export interface WorkloadDoc {
  name: string; yaml: string; facts: Record<string, unknown>
  shape: { axes: { name: string; value: N; unit: string; share: number; text: string }[] }
}

export interface TwinCatalogue {
  models: { name: string; title: string; params: number; active_params: number; context: number }[]
  gpus: { name: string; title: string; memory_gib: number; bandwidth_tbs: number; bf16_tflops: number; fp8_tflops: number; fp4_tflops: number; domain: number }[]
  engines: { name: string; title: string }[]
  precisions: string[]
  routers: string[]
}
export interface TwinAsk {
  model: string; gpu: string; gpus?: number; tp?: number; pp?: number; dp?: number; ep?: number; replicas?: number; router?: string; precision?: string; kv_fp8?: boolean; engine?: string
  /** A number of tokens, or a distribution. */
  prompt_tokens?: number | string; output_tokens?: number | string; workload?: string; users?: number[]; rates?: number[]; requests?: number
}
export interface Prediction {
  fits: boolean; error: string; cluster: string; by: 'users' | 'rate'
  /** Of one device, in bytes; kv_tokens is what one replica holds. */
  memory: { usable: number; weights: number; activations: number; other: number; kv: number; kv_tokens: number } | null
  /** What was left out for time, '' for nothing. */
  left: string
  points: { load: number; output_per_s: N; ttft_p50_ms: N; ttft_p95_ms: N; tpot_p50_ms: N; tpot_p95_ms: N; e2e_p95_ms: N; requests: number; refused: number }[]
  took_ms: number
}

/** What went wrong, in the server's words: what, which field, and how to put it right. */
export class ApiError extends Error {
  constructor(readonly status: number, text: string, readonly field = '', readonly fix = '', readonly said?: Said) {
    super(text)
  }
}

/** One run, read. Every promise rejects with an ApiError, or an AbortError when its signal was aborted. */
export interface Source {
  readonly id: string
  /** Whether all of it is in the page: no server to ask, nothing to start or to change. */
  readonly offline: boolean
  /** How the requests that are there were chosen, where they are not all. */
  readonly sampled?: string | null
  runs(signal?: AbortSignal): Promise<RunRow[]>
  doc(signal?: AbortSignal): Promise<RunDoc>
  series(signal?: AbortSignal): Promise<SeriesList>
  data(ids: number[], from: Ms, to: Ms, points: number, signal?: AbortSignal): Promise<Grid>
  bands(figures: string[], workload: string, from: Ms, to: Ms, points: number, signal?: AbortSignal): Promise<BandsGrid>
  heat(figure: string, workload: string, from: Ms, to: Ms, columns: number, signal?: AbortSignal): Promise<HeatGrid>
  envelope(signalName: string, stat: string, from: Ms, to: Ms, points: number, signal?: AbortSignal): Promise<EnvelopeGrid>
  figures(from: Ms, to: Ms, signal?: AbortSignal): Promise<Figures>
  requests(q: Query, signal?: AbortSignal): Promise<Rows>
  request(n: number, signal?: AbortSignal): Promise<One>
  scatter(q: ScatterQuery, signal?: AbortSignal): Promise<Scatter>
  common(q: Query, box: Box, signal?: AbortSignal): Promise<Common>
  /** Calls on with every event until the returned function is called. After the end, nothing more comes. */
  subscribe(after: number, on: (event: LiveEvent) => void): () => void
}
export type LiveEvent =
  | { type: 'snapshot'; snapshot: Snapshot }
  /** Some are lost for good: read the run anew. */
  | { type: 'resync' }
  | { type: 'end' }
  /** open false: the connection is lost and being made again. */
  | { type: 'link'; open: boolean }

// Lists that are empty may come as null: before a live run's first request nearly all are.

const completeRun = (r: RunRow): RunRow => ({ ...r, workloads: r.workloads ?? [], tags: r.tags ?? {} })

/** A run's document in which every list is one. */
export const completeDoc = (d: RunDoc): RunDoc => ({
  ...d, run: completeRun(d.run), phases: d.phases ?? [], slo: d.slo ?? [], workloads: d.workloads ?? [], marks: d.marks ?? [], missing: d.missing ?? [],
})

const completeSeries = (l: SeriesList): SeriesList => ({ series: l.series ?? [], missing: l.missing ?? [] })

const completeSnapshot = (s: Snapshot): Snapshot => ({
  ...s, reasons: s.reasons ?? [], reasons_said: s.reasons_said ?? [], series_added: s.series_added ?? [], cells: s.cells ?? [], bands: s.bands ?? [], marks: s.marks ?? [],
})

type Params = Record<string, string | number | undefined>

/** A path with its query; what is undefined or empty is left out. */
export function address(path: string, params: Params = {}): string {
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(params)) {
    if (v === undefined || v === '') continue
    q.set(k, typeof v === 'number' ? String(Math.round(v * 1000) / 1000) : v)
  }
  const s = q.toString()
  return s ? `${path}?${s}` : path
}

/** Fetches; where there is no answer it throws an ApiError that says so. */
async function reach(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, { ...init, credentials: 'same-origin' })
  } catch (err) {
    if (init.signal?.aborted) throw err
    throw new ApiError(0, 'the server does not answer', '', 'is plimsoll still running?')
  }
}

/** Asks the server, and gives its JSON or throws an ApiError. */
export async function ask<T>(path: string, init: { method?: string; body?: unknown; signal?: AbortSignal } = {}): Promise<T> {
  const headers: Record<string, string> = { Accept: 'application/json' }
  if (init.body !== undefined || (init.method && init.method !== 'GET')) headers['Content-Type'] = 'application/json'
  const res = await reach(path, {
    method: init.method ?? 'GET', headers,
    ...(init.body !== undefined && { body: JSON.stringify(init.body) }),
    ...(init.signal && { signal: init.signal }),
  })
  if (res.status === 204) return undefined as T
  let body: unknown = null
  try {
    body = parse(await res.text())
  } catch (err) {
    if (init.signal?.aborted) throw err
    if (res.ok && res.status !== 202) throw new ApiError(res.status, 'the answer is not JSON')
  }
  if (res.ok) return body as T
  const e = (body as { error?: { text?: string; field?: string; fix?: string; said?: Said } } | null)?.error
  throw new ApiError(res.status, e?.text ?? `${res.status} ${res.statusText}`, e?.field, e?.fix, e?.said)
}

// Characters that turn the direction of the text after them, as they are or escaped; pairs
// of backslashes first, so that none is taken for the start of an escape.
const turning = /\\\\|[\u202a-\u202e\u2066-\u2069]|\\u(?:202[a-e]|206[6-9])/gi

/** JSON of the server. What names and answers hold that would turn the text around it, and make
 *  one name look like another, is written out. */
export function parse(json: string): unknown {
  return JSON.parse(json.replace(turning, (c) => (c === '\\\\' ? c : c.length > 1 ? `\\${c}` : `\\\\u${c.charCodeAt(0).toString(16)}`)))
}

const enc = encodeURIComponent

/** What is not of one run. */
export const api = {
  version: (s?: AbortSignal) => ask<Version>('/api/version', { signal: s }),
  runs: (s?: AbortSignal) => ask<{ runs: RunRow[] | null }>('/api/runs', { signal: s }).then((r) => (r.runs ?? []).map(completeRun)),
  patchRun: (id: string, change: { note?: string; name?: string; tags?: Record<string, string | null> }) =>
    ask<RunRow>(`/api/runs/${enc(id)}`, { method: 'PATCH', body: change }),
  /** How much is made of what is drawn of a run that is opened for the first time; null while nothing is. */
  opening: (id: string, signal?: AbortSignal) => ask<{ share: number | null }>(`/api/runs/${enc(id)}/opening`, { signal }),
  deleteRun: (id: string) => ask<void>(`/api/runs/${enc(id)}?confirm=${enc(id)}`, { method: 'DELETE' }),
  /** Rejects with a ScenarioRefused when the scenario is wrong. */
  start: async (scenario: string): Promise<{ id: string }> => {
    const res = await reach('/api/runs', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/json' }, body: JSON.stringify({ scenario }),
    })
    const body = (await res.text().then<unknown>(parse).catch(() => null)) as { id?: string; errors?: ScenarioError[]; error?: { text?: string; fix?: string; said?: Said } } | null
    if (res.ok && body?.id) return { id: body.id }
    if (body?.errors) throw new ScenarioRefused(body.errors)
    throw new ApiError(res.status, body?.error?.text ?? `${res.status} ${res.statusText}`, '', body?.error?.fix, body?.error?.said)
  },
  stop: (id: string) => ask<void>(`/api/runs/${enc(id)}/stop`, { method: 'POST' }),
  schema: (s?: AbortSignal) => ask<Record<string, unknown>>('/api/schema', { signal: s }),
  scenarios: (s?: AbortSignal) => ask<{ scenarios: { name: string; changed: string }[] }>('/api/scenarios', { signal: s }).then((r) => r.scenarios),
  scenario: (name: string, s?: AbortSignal) => ask<{ name: string; scenario: string }>(`/api/scenarios/${enc(name)}`, { signal: s }),
  saveScenario: (name: string, scenario: string) => ask<void>(`/api/scenarios/${enc(name)}`, { method: 'PUT', body: { scenario } }),
  deleteScenario: (name: string) => ask<void>(`/api/scenarios/${enc(name)}`, { method: 'DELETE' }),
  check: (scenario: string, s?: AbortSignal) => ask<{ errors: ScenarioError[]; plan: Plan | null; /** What it says in vain. */ notes?: ScenarioError[] }>('/api/scenarios/check', { method: 'POST', body: { scenario }, signal: s }),
  compare: (ids: string[], s?: AbortSignal) => ask<Comparison>(`/api/compare?runs=${ids.map(enc).join(',')}`, { signal: s }),
  workloads: (q: { model?: string; gpu?: string } = {}, s?: AbortSignal) => ask<{ workloads: WorkloadRow[] }>(address('/api/workloads', q), { signal: s }).then((r) => r.workloads),
  workload: (family: string, name: string, model?: string, s?: AbortSignal) => ask<WorkloadDoc>(address(`/api/workloads/${enc(family)}/${enc(name)}`, { model }), { signal: s }),
  twinCatalogue: (s?: AbortSignal) => ask<TwinCatalogue>('/api/twin/catalogue', { signal: s }),
  predict: (q: TwinAsk, s?: AbortSignal) => ask<Prediction>('/api/twin/predict', { method: 'POST', body: q, signal: s }),
  reportURL: (id: string) => `/api/runs/${enc(id)}/report.html`,
}

/** A scenario that cannot run, with each error in its place. */
export class ScenarioRefused extends Error {
  constructor(readonly errors: ScenarioError[]) {
    super(errors[0]?.text ?? 'the scenario is refused')
  }
}

/** The run as the server tells it. */
export class HttpSource implements Source {
  readonly offline = false
  constructor(readonly id: string) {}

  #get<T>(path: string, params: Params, signal?: AbortSignal) {
    return ask<T>(address(`/api/runs/${enc(this.id)}${path}`, params), { signal })
  }
  runs(s?: AbortSignal) { return api.runs(s) }
  doc(s?: AbortSignal) { return this.#get<RunDoc>('', {}, s).then(completeDoc) }
  series(s?: AbortSignal) { return this.#get<SeriesList>('/series', {}, s).then(completeSeries) }
  data(ids: number[], from: Ms, to: Ms, points: number, s?: AbortSignal) { return this.#get<Grid>('/data', { series: ids.join(','), from, to, points }, s) }
  bands(figures: string[], workload: string, from: Ms, to: Ms, points: number, s?: AbortSignal) {
    return this.#get<BandsGrid>('/bands', { figure: figures.join(','), workload, from, to, points }, s)
  }
  heat(figure: string, workload: string, from: Ms, to: Ms, columns: number, s?: AbortSignal) { return this.#get<HeatGrid>('/heat', { figure, workload, from, to, columns }, s) }
  envelope(signal: string, stat: string, from: Ms, to: Ms, points: number, s?: AbortSignal) { return this.#get<EnvelopeGrid>('/envelope', { signal, stat, from, to, points }, s) }
  figures(from: Ms, to: Ms, s?: AbortSignal) { return this.#get<Figures>('/figures', { from, to }, s) }
  requests(q: Query, s?: AbortSignal) { return this.#get<Rows>('/requests', { ...q }, s) }
  request(n: number, s?: AbortSignal) { return this.#get<One>(`/requests/${n}`, {}, s) }
  scatter(q: ScatterQuery, s?: AbortSignal) { return this.#get<Scatter>('/scatter', { ...q }, s) }
  common(q: Query, box: Box, s?: AbortSignal) { return this.#get<Common>('/common', { ...q, ...box }, s) }

  // EventSource reconnects by itself and sends the last id it has seen; only after
  // a definite refusal (it is then CLOSED) is it up to us.
  subscribe(after: number, on: (event: LiveEvent) => void): () => void {
    let es: EventSource | null = null
    let timer = 0
    let last = after
    let wait = 500
    const connect = () => {
      es = new EventSource(address(`/api/runs/${enc(this.id)}/events`, { after: last > 0 ? last : undefined }))
      es.onopen = () => { wait = 500; on({ type: 'link', open: true }) }
      es.addEventListener('snapshot', (e) => {
        const snapshot = completeSnapshot(parse((e as MessageEvent<string>).data) as Snapshot)
        last = snapshot.n
        on({ type: 'snapshot', snapshot })
      })
      es.addEventListener('resync', () => on({ type: 'resync' }))
      es.addEventListener('end', () => { es?.close(); es = null; on({ type: 'end' }) })
      es.onerror = () => {
        on({ type: 'link', open: false })
        if (es?.readyState === EventSource.CLOSED) {
          timer = window.setTimeout(connect, wait)
          wait = Math.min(wait * 2, 10_000)
        }
      }
    }
    connect()
    return () => { clearTimeout(timer); es?.close(); es = null }
  }
}
