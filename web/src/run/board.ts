// The run view's state: what is looked at, what is known, what goes on. It reads through a
// Source, keeps the place in the address, and calls painters at most once per frame of the
// screen. It draws nothing itself.

import type { Figures, Mark, Ms, RunDoc, SeriesList, Snapshot, Source } from '../api'
import { place, setQuery } from '../route'
import { Frame } from './frame'
import { arrange, type Choice, choiceText, type Lane, lanesOf, parseChoice } from './lanes'
import { length, pan, parseSpan, type Span, spanText, steady, within, zoom } from './view'

/**
 * What changed: shape is for all components, head for those that follow every live second, the
 * others for painters.
 */
export type Change = 'shape' | 'head' | 'view' | 'data' | 'cursor'
export interface Painter {
  /** False while it is out of sight; then it is not called. */
  visible: boolean
  /** True of what costs time: the lanes. Those that one frame has no time for wait for the next. */
  heavy?: boolean
  paint(what: ReadonlySet<Change>): void
}

/**
 * How much of one frame the lanes may take: ms of ours, and so many lanes, since what the browser
 * then takes to fill them with colour nobody can measure before it is over. What comes by itself
 * every second has time; what follows a hand has not.
 */
const frameTime = 8
const fewLanes = 2
const manyLanes = 6

/** How far a window reaches beyond what is shown, so that moving it shows no hole at once. */
const margin = 0.75
/** As many points as one line is asked for at most. */
const mostPoints = 4000
/** Of a live run the first reading is in seconds up to an hour. */
const livePoints = 3600
/** Figures in the headline that a live second brings, kept for the small courses. */
export const sparkLength = 60

const storeKey = 'plimsoll.lanes'

interface Kept { keys?: string[]; heat?: string[]; heights?: Record<string, number> }

export class Board {
  doc: RunDoc
  list: SeriesList
  lanes: Lane[] = []
  /** The lanes on screen, in order. */
  shown: Lane[] = []
  choice: Choice | null = null
  heights: Record<string, number> = {}
  /** Null: the whole run. */
  view: Span | null = null
  selection: Span | null = null
  cursor: Ms | null = null
  current: string | null = null
  live: boolean
  linked = true
  /** Whether the right edge goes with the time. */
  following = false
  snapshot: Snapshot | null = null
  history: Snapshot['header'][] = []
  figures: Figures | null = null
  base: Frame | null = null
  detail: Frame | null = null
  error: Error | null = null
  /** Counts up when live requests should be read again. */
  tick = 0
  dropped = 0
  /** Lanes of which latencies a workload's own course was asked for. */
  readonly workloads = new Set<string>()
  /** Pixels of the plots' width. */
  width = 800

  #painters = new Set<Painter>()
  #listeners = new Set<() => void>()
  #followers = new Set<() => void>()
  #dirty = new Set<Change>()
  /** Lanes that wait for a frame, and what has changed for each since it was painted. */
  #waiting = new Map<Painter, Set<Change>>()
  #frame = 0
  #most = manyLanes
  #timers = new Map<string, number>()
  #abort = new AbortController()
  #loading: AbortController | null = null
  /** How many readings of base were begun, and which of them base is. */
  #begun = 0
  #read = 0
  #wanted: Span | null = null
  #figuresAbort: AbortController | null = null
  /** How long the last figures took in ms. */
  #figuresTook = 0
  #leave: (() => void) | null = null
  #now: Ms

  constructor(readonly source: Source, doc: RunDoc, list: SeriesList) {
    this.doc = doc
    this.list = list
    this.live = doc.live && !source.offline
    this.#now = doc.span.to
    this.following = this.live
    this.#readPlace(true)
    this.#arrange()
  }

  /** Begins to read. Call close when the view goes. */
  open() {
    void this.#loadBase()
    this.#loadFigures()
    if (this.live) this.#leave = this.source.subscribe(0, (e) => this.#on(e))
  }

  close() {
    this.#abort.abort()
    this.#loading?.abort()
    this.#figuresAbort?.abort()
    this.#leave?.()
    cancelAnimationFrame(this.#frame)
    for (const id of this.#timers.values()) clearTimeout(id)
  }

  // Who looks on.

  addPainter(p: Painter): () => void {
    this.#painters.add(p)
    return () => { this.#painters.delete(p); this.#waiting.delete(p) }
  }
  onShape(f: () => void): () => void {
    this.#listeners.add(f)
    return () => this.#listeners.delete(f)
  }
  /** Like onShape, and every live second too. */
  onHead(f: () => void): () => void {
    this.#followers.add(f)
    return () => this.#followers.delete(f)
  }
  changed(...what: Change[]) {
    for (const w of what) this.#dirty.add(w)
    this.#frame ||= requestAnimationFrame(() => this.#paint())
  }
  #paint() {
    this.#frame = 0
    const dirty = this.#dirty
    this.#dirty = new Set()
    if (dirty.has('shape')) for (const f of this.#listeners) f()
    if (dirty.has('shape') || dirty.has('head')) for (const f of this.#followers) f()
    for (const p of this.#painters) {
      if (!p.visible) continue
      if (!p.heavy) { if (dirty.size > 0) p.paint(dirty); continue }
      const wait = this.#waiting.get(p)
      if (wait) for (const w of dirty) wait.add(w)
      else if (dirty.size > 0) this.#waiting.set(p, new Set(dirty))
    }
    // Those that have waited longest come first.
    const end = performance.now() + frameTime
    if (dirty.size > 0) this.#most = dirty.has('data') ? fewLanes : manyLanes
    let left = this.#most
    for (const [p, what] of this.#waiting) {
      this.#waiting.delete(p)
      if (!p.visible) continue
      p.paint(what)
      if (--left <= 0 || performance.now() > end) break
    }
    if (this.#waiting.size > 0) this.#frame ||= requestAnimationFrame(() => this.#paint())
  }
  /** Paints everything at once, also what is out of sight: the printer waits for no frame. */
  paintNow() { for (const p of this.#painters) p.paint(new Set<Change>(['shape', 'view', 'data', 'cursor'])) }
  #later(name: string, ms: number, f: () => void) {
    clearTimeout(this.#timers.get(name))
    this.#timers.set(name, window.setTimeout(f, ms))
  }

  // Where.

  /** From the first to the latest known time. */
  get bounds(): Span {
    const to = Math.max(this.#now, this.doc.span.to, this.live ? 30_000 : 1000)
    return { from: Math.min(this.doc.span.from, 0), to }
  }
  /** Whether nothing has come yet: then no lane can say that it has no source. */
  get awaits(): boolean { return this.live && this.list.series.length === 0 }
  /** What is on screen. */
  get window(): Span { return this.view ?? this.bounds }
  /**
   * Of what the headline's figures are: the selection, else the steady window, of a live run as far
   * as it has come. Nothing is divided by time that has not passed.
   */
  get range(): Span {
    const b = this.bounds
    const end = this.live ? Math.max(this.#now, b.from) : b.to
    const s = this.selection ?? steady(this.doc.phases, { from: b.from, to: end })
    const from = Math.min(s.from, end)
    return { from, to: Math.max(from, Math.min(s.to, end)) }
  }
  get now(): Ms { return this.#now }

  look(s: Span | null, follow?: boolean) {
    const b = this.bounds
    if (s && s.from <= b.from && s.to >= b.to) s = null
    this.view = s && within(s, b)
    this.following = this.live && (follow ?? (this.view === null || this.view.to >= b.to - 1))
    this.changed('view')
    this.#later('place', 200, () => this.#writePlace())
    this.#later('want', 70, () => this.#want())
  }
  zoomAt(t: Ms, factor: number) { this.look(zoom(this.window, t, factor, this.bounds)) }
  panBy(share: number) { this.look(pan(this.window, share * length(this.window), this.bounds)) }
  follow() {
    const b = this.bounds
    this.look(this.view ? { from: b.to - length(this.view), to: b.to } : null, true)
    this.changed('shape')
  }

  select(s: Span | null, final = true) {
    const b = this.bounds
    this.selection = s && { from: Math.max(s.from, b.from), to: Math.min(s.to, b.to) }
    // An instant is no range: there are no figures of it, and no link could say it.
    if (final && this.selection && length(this.selection) < 1) this.selection = null
    this.changed('view', 'cursor')
    if (!final) return
    this.changed('shape')
    this.#later('place', 50, () => this.#writePlace())
    this.#later('figures', 30, () => this.#loadFigures())
  }
  whole() {
    this.look(null)
    this.select(null)
  }
  point(t: Ms | null) {
    if (t === this.cursor) return
    this.cursor = t
    this.changed('cursor')
  }

  // Which lanes.

  #arrange() {
    const before = this.lanes
    const kept = new Map(before.map((l) => [l.key, l]))
    // A lane that is the same as before stays the same object, so that its plot stays.
    this.lanes = lanesOf(this.list.series, this.list.missing.length ? this.list.missing : this.doc.missing, this.doc.workloads).map((l) => {
      const old = kept.get(l.key)
      return old && JSON.stringify(old) === JSON.stringify(l) ? old : l
    })
    this.shown = arrange(this.lanes, this.choice)
    if (before.length && this.current && !this.shown.some((l) => l.key === this.current)) this.current = null
  }
  choose(c: Choice | null) {
    this.choice = c
    this.shown = arrange(this.lanes, c)
    // Who is back at the usual has chosen nothing: a link says nothing of it.
    if (c && c.heat.length === 0 && choiceText({ keys: arrange(this.lanes, null).map((l) => l.key), heat: [] }) === choiceText({ keys: this.shown.map((l) => l.key), heat: [] })) this.choice = null
    this.#keep()
    this.#writePlace()
    this.changed('shape', 'view', 'data')
    this.#later('want', 30, () => { if (this.#lacks(this.base)) void this.#loadBase() })
  }
  /** The choice as it is, to change from. */
  get chosen(): Choice { return this.choice ?? { keys: this.shown.map((l) => l.key), heat: [] } }
  isHeat(key: string) { return this.choice?.heat.includes(key) ?? false }
  toggleHeat(key: string) {
    const c = this.chosen
    this.choose({ keys: c.keys, heat: c.heat.includes(key) ? c.heat.filter((k) => k !== key) : [...c.heat, key] })
  }
  /** Moves a lane before another of its group, or by steps within it. */
  move(key: string, to: string | number) {
    const keys = this.shown.map((l) => l.key)
    const lane = this.shown.find((l) => l.key === key)
    const mates = this.shown.filter((l) => l.group === lane?.group).map((l) => l.key)
    const from = mates.indexOf(key)
    const at = typeof to === 'string' ? mates.indexOf(to) : Math.min(Math.max(from + to, 0), mates.length - 1)
    if (from < 0 || at < 0 || at === from) return
    mates.splice(from, 1)
    mates.splice(at, 0, key)
    const order = [...mates]
    this.choose({ keys: keys.map((k) => (this.shown.find((l) => l.key === k)?.group === lane?.group ? (order.shift() as string) : k)), heat: this.chosen.heat })
  }
  setHeight(key: string, px: number | null) {
    if (px === null) delete this.heights[key]
    else this.heights[key] = Math.round(Math.min(Math.max(px, 48), 600))
    this.#keep()
    this.changed('shape', 'view')
  }
  showWorkload(name: string, on: boolean) {
    if (on === this.workloads.has(name)) return
    if (on) this.workloads.add(name)
    else this.workloads.delete(name)
    if (on) { void this.#loadBase(); this.#wanted = null; this.#later('want', 10, () => this.#want()) }
  }

  // What is remembered: in the address first, then in this browser.

  #readPlace(first: boolean) {
    const q = place().query
    this.view = parseSpan(q.get('view'))
    this.selection = parseSpan(q.get('sel'))
    if (this.live && this.view) this.following = false
    const choice = parseChoice(q.get('lanes'))
    if (first || choice) this.choice = choice
    if (!first) return
    let kept: Kept = {}
    try { kept = JSON.parse(localStorage.getItem(storeKey) ?? '{}') as Kept } catch { /* nothing is kept, then */ }
    if (kept && typeof kept === 'object') {
      if (!this.choice && Array.isArray(kept.keys) && kept.keys.length) this.choice = { keys: kept.keys.filter((k) => typeof k === 'string'), heat: (kept.heat ?? []).filter((k) => typeof k === 'string') }
      for (const [k, v] of Object.entries(kept.heights ?? {})) if (typeof v === 'number') this.heights[k] = v
    }
  }
  /** The address changed from outside: the browser's own steps. */
  revisit() {
    const q = place().query
    const sel = q.get('sel') ?? ''
    const view = q.get('view') ?? ''
    if (sel === (this.selection ? spanText(this.selection) : '') && view === (this.view ? spanText(this.view) : '')) return
    if (this.#writing) return
    this.#readPlace(false)
    this.shown = arrange(this.lanes, this.choice)
    this.changed('shape', 'view', 'cursor')
    this.#want()
    this.#loadFigures()
  }
  /** While this view itself changes the address. */
  #writing = false
  #writePlace() {
    if (this.#abort.signal.aborted) return
    this.#writing = true
    setQuery({
      view: this.view && !this.following ? spanText(this.view) : null,
      sel: this.selection ? spanText(this.selection) : null,
      lanes: this.choice ? choiceText(this.choice) : null,
    })
    this.#writing = false
  }
  #keep() {
    const kept: Kept = { heights: this.heights }
    if (this.choice) Object.assign(kept, this.choice)
    try { localStorage.setItem(storeKey, JSON.stringify(kept)) } catch { /* not kept, then */ }
  }

  // What is known.

  /** The frame to draw what is on screen from: the finer where it reaches. */
  frame(): Frame | null {
    const w = this.window
    const d = this.detail
    if (d && d.from <= w.from + 1 && d.to >= Math.min(w.to, this.#now) - 1) return d
    return this.base
  }
  #ids(): number[] {
    const ids = new Set<number>()
    for (const l of this.shown) for (const p of l.parts) ids.add(p.id)
    // The headline's small courses.
    for (const s of this.list.series) if (!s.workload && !s.source && headline.has(s.signal)) ids.add(s.id)
    return [...ids]
  }
  #lacks(f: Frame | null) {
    if (!f) return true
    return this.#ids().some((id) => !f.series.has(id)) || this.shown.some((l) => l.kind === 'envelope' && !f.envelopes.has(envelopeKey(l)))
  }

  async #load(s: Span, points: number, signal: AbortSignal): Promise<Frame> {
    const f = new Frame(s.from, s.to, points)
    const ids = this.#ids()
    const figures = ['ttft', 'tpot', 'itl', 'e2e']
    const jobs: Promise<unknown>[] = []
    for (let i = 0; i < ids.length; i += 150) {
      jobs.push(this.source.data(ids.slice(i, i + 150), s.from, s.to, points, signal).then((g) => f.addGrid(g)))
    }
    for (const w of ['', ...this.workloads]) jobs.push(this.source.bands(figures, w, s.from, s.to, points, signal).then((g) => f.addBands(w, g)))
    for (const l of this.shown) if (l.kind === 'envelope') jobs.push(this.#envelope(f, l, signal))
    await Promise.all(jobs)
    return f
  }
  #envelope(f: Frame, l: Lane, signal: AbortSignal) {
    const to = this.live ? Math.max(f.to, this.#now) : f.to
    return this.source.envelope(l.signal as string, l.stat as string, f.from, to, Math.min(f.points, mostPoints), signal).then((g) => f.addEnvelope(envelopeKey(l), g))
  }

  async #loadBase() {
    const b = this.bounds
    const turn = ++this.#begun
    try {
      const f = await this.#load(b, this.live ? livePoints : this.#pointsFor(b), this.#abort.signal)
      // One that was begun later and is there already knows more: what was chosen meanwhile is in it.
      if (turn < this.#read) return
      this.#read = turn
      // What came while it was read, and may be in neither.
      for (const s of this.#recent) f.push(s)
      this.base = f
      this.error = null
    } catch (err) {
      if (this.#abort.signal.aborted || turn < this.#read) return
      this.error = err as Error
      this.changed('shape')
      if (this.live) this.#later('base', 2000, () => void this.#loadBase())
      return
    }
    this.changed('data', 'view', 'shape')
    if (this.view) this.#want()
  }
  #pointsFor(s: Span) { return Math.min(mostPoints, Math.max(200, Math.ceil(this.width * (length(s) / length(this.window))))) }

  /** Reads finer what is on screen, where what is known is too coarse or does not reach. */
  #want() {
    const w = this.window
    const base = this.base
    if (!base || !this.view) return
    const fine = (f: Frame) => (f.grid?.step ?? 0) <= 1000 || (f.grid?.step ?? 0) <= (1.5 * length(w)) / this.width
    if (fine(base) && !this.#lacks(base)) return
    const d = this.detail
    if (d && d.from <= w.from + 1 && d.to >= w.to - 1 && fine(d) && !this.#lacks(d)) return
    const grown = within({ from: w.from - margin * length(w), to: w.to + margin * length(w) }, this.bounds)
    if (this.#wanted && this.#loading && spanText(this.#wanted) === spanText(grown)) return
    this.#loading?.abort()
    const abort = (this.#loading = new AbortController())
    this.#wanted = grown
    this.#load(grown, this.#pointsFor(grown), abort.signal).then(
      (f) => { if (!abort.signal.aborted) { this.detail = f; this.#wanted = null; this.changed('data', 'view') } },
      () => { if (this.#loading === abort) this.#wanted = null },
    )
  }

  #loadFigures() {
    this.#figuresAbort?.abort()
    const abort = (this.#figuresAbort = new AbortController())
    const r = this.range
    const begun = performance.now()
    this.source.figures(r.from, r.to, abort.signal).then(
      (f) => { this.figures = f; this.#figuresTook = performance.now() - begun; this.changed('head', 'cursor') },
      (err: Error) => { if (!abort.signal.aborted && !this.live) { this.error = err; this.changed('shape') } },
    )
  }

  // What goes on.

  #on(e: Parameters<Parameters<Source['subscribe']>[1]>[0]) {
    switch (e.type) {
      case 'link':
        if (this.linked !== e.open) { this.linked = e.open; this.changed('shape') }
        return
      case 'resync':
        void this.#reload()
        return
      case 'end':
        this.#leave = null
        void this.#reload()
        return
      case 'snapshot':
        this.#take(e.snapshot)
    }
  }
  #take(s: Snapshot) {
    if (this.snapshot && s.n <= this.snapshot.n) return
    this.snapshot = s
    this.history.push(s.header)
    if (this.history.length > sparkLength) this.history.shift()
    this.#recent.push(s)
    if (this.#recent.length > 10) this.#recent.shift()
    this.dropped = s.dropped
    const before = this.#now
    this.#now = Math.max(this.#now, s.t)
    if (s.series_added.length) {
      const known = new Set(this.list.series.map((x) => x.id))
      this.list = { ...this.list, series: this.list.series.concat(s.series_added.filter((x) => !known.has(x.id))) }
      // A workload that begins later has the next colour, as the run's own list will say.
      const more = [...new Set(s.series_added.map((x) => x.workload))].filter((w) => w && !this.doc.workloads.includes(w))
      if (more.length) this.doc = { ...this.doc, workloads: [...this.doc.workloads, ...more] }
      this.#arrange()
    }
    if (s.marks.length) this.doc = { ...this.doc, marks: joinMarks(this.doc.marks, s.marks) }
    const shape = this.#phase(s) || s.series_added.length > 0 || s.marks.length > 0 || !this.#running
    this.#running = true
    let fits = true
    if (this.base) fits = this.base.push(s)
    if (this.detail && this.detail.to >= before - 1) { if (!this.detail.push(s)) this.detail = null }
    // A view that was opened before there was any series has no grid to put cells on.
    if (this.base && !this.base.grid && this.list.series.length) this.#laterOnce('first', 100, () => void this.#loadBase())
    if (!fits) this.#laterOnce('coarse', 10_000, () => void this.#loadBase())
    if (this.following && this.view) {
      const by = this.bounds.to - this.view.to
      this.view = { from: this.view.from + by, to: this.view.to + by }
    }
    if (s.n % 3 === 0) {
      this.tick++
      if (this.base) for (const l of this.shown) if (l.kind === 'envelope') this.#envelope(this.base, l, this.#abort.signal).then(() => this.changed('data'), () => {})
      if (this.selection && this.selection.to > this.#now - 60_000) this.#loadFigures()
      // Those of the whole window are dearer with every request: they may take one part in fifty of the time.
      else if (!this.selection && (this.doc.slo.length > 0 || this.doc.workloads.length > 1)) this.#laterOnce('levels', Math.max(6000, 50 * this.#figuresTook), () => { if (this.live && !this.selection) this.#loadFigures() })
    }
    this.changed(shape ? 'shape' : 'head', 'data', 'view', 'cursor')
  }
  #running = false
  /** The last seconds, for a frame that is read meanwhile. */
  readonly #recent: Snapshot[] = []
  #laterOnce(name: string, ms: number, f: () => void) {
    if (this.#timers.has(name)) return
    this.#timers.set(name, window.setTimeout(() => { this.#timers.delete(name); f() }, ms))
  }
  /** The phases as the snapshots tell them, between two readings of the run. */
  #phase(s: Snapshot): boolean {
    const list = this.doc.phases
    const last = list[list.length - 1]
    if (!/^(warmup|steady|drain)$/.test(s.phase) || (last && last.name === s.phase && last.step === s.step)) return false
    const at = s.marks.find((m) => m.kind === 'phase' || m.kind === 'step')?.t ?? s.t
    const next = list.map((p) => (p.to === null ? { ...p, to: at } : p))
    next.push({ name: s.phase as 'steady', step: s.step, from: at, to: null })
    this.doc = { ...this.doc, phases: next }
    return true
  }
  /** Reads the run anew: some of it was missed, or it has ended. */
  async #reload() {
    try {
      const [doc, list] = await Promise.all([this.source.doc(this.#abort.signal), this.source.series(this.#abort.signal)])
      this.doc = doc
      this.list = list
      this.live = doc.live
      this.#now = this.live ? Math.max(this.#now, doc.span.to) : doc.span.to
      // On disk the series have other numbers: what came live is of none of them.
      if (!this.live) { this.#recent.length = 0; this.following = false; this.#leave?.(); this.#leave = null }
      this.#arrange()
      this.detail = null
      await this.#loadBase()
      this.#loadFigures()
      this.tick++
      this.changed('shape', 'data', 'view')
    } catch {
      if (!this.#abort.signal.aborted) this.#later('reload', 2000, () => void this.#reload())
    }
  }
}

/** Marks with newer ones: one that comes again has ended and takes its own place. */
export function joinMarks(old: Mark[], next: Mark[]): Mark[] {
  const out = [...old]
  for (const m of next) {
    const i = out.findIndex((o) => o.t === m.t && o.kind === m.kind && o.text === m.text)
    if (i < 0) out.push(m)
    else out[i] = m
  }
  return out
}

const headline = new Set(['client.requests_in_flight', 'client.output_tokens', 'client.requests_failed', 'client.requests_ok'])

export const envelopeKey = (l: Lane) => `${l.signal}/${l.stat}`

/** What summary.json says of the whole steady window: samples, ten a second, finer than the cells. */
export const meanInFlight = (doc: RunDoc): number | null => (doc.summary as { load?: { requests_in_flight?: { mean?: number } } } | null)?.load?.requests_in_flight?.mean ?? null
