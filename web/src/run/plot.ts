// One lane's plot: turns what a frame holds into uPlot's columns and draws them. It keeps no
// figures of its own and answers no pointer; cursor and range are of all lanes together.

import uPlot from 'uplot'
import type { Band } from '../api'
import { brief, duration, figure } from '../format'
import { alpha, palette, workColor } from '../theme'
import type { Board } from './board'
import { envelopeKey } from './board'
import { columnsOf, columnWidth, fillColumns, isDense, lineColumns } from './columns'
import { bandKey, type Frame } from './frame'
import { addends, type Lane, type Look } from './lanes'
import { niceTop, type Span } from './view'
import { t } from './words'

type N = number | null
/** Has room for such as 12.5 kB/s. */
export const gutter = 60
export const rightPad = 16

/** Which parts a reader has switched off, and which workloads' bands are on. */
export interface Toggles { off: ReadonlySet<string>; workloads: readonly string[] }

function lookColor(look: Look): string {
  const p = palette()
  switch (look) {
    case 'first': return p.accent
    case 'second': return p.muted
    case 'third': return p.text
    case 'asked': return p.text
    case 'fail': return p.fail
  }
  return workColor(Number(look.slice(1)))
}

/** Columns for uPlot, and how to draw each; the first column is the times. */
interface Drawing { data: (N[] | number[])[]; series: uPlot.Series[]; bands: uPlot.Band[] }

// A point between two gaps is no line: it needs a dot to be seen.
function alone(u: uPlot, si: number): number[] | null {
  const d = u.data[si] as N[]
  const out: number[] = []
  if (isDense(u, 1)) return out
  const [from, to] = u.series[0]?.idxs ?? [0, d.length - 1]
  for (let i = from; i <= to; i++) {
    if (d[i] != null && (i === 0 || d[i - 1] == null) && (i === d.length - 1 || d[i + 1] == null)) out.push(i)
  }
  return out
}
const dots = (color: string): uPlot.Series.Points => ({ show: true, size: 3, width: 0, stroke: color, fill: color, filter: alone as never })

/**
 * Highest values as one path of small squares, at most one for each pixel across: a long run has
 * more seconds than the screen has pixels, and an arc for each of them costs more than all lines.
 */
function marks(u: uPlot, si: number, from: number, to: number): uPlot.Series.Paths {
  const fill = new Path2D()
  const x = u.data[0] as number[]
  const y = u.data[si] as N[]
  const side = Math.round(2 * (devicePixelRatio || 1))
  let column = NaN
  let top = Infinity
  const put = () => { if (top < Infinity) fill.rect(column - side / 2, top - side / 2, side, side) }
  for (let i = from; i <= to; i++) {
    const v = y[i]
    if (v === null || v === undefined) continue
    const at = Math.round(u.valToPos(x[i] as number, 'x', true))
    const down = u.valToPos(v, 'y', true)
    if (at !== column) {
      put()
      column = at
      top = down
    } else top = Math.min(top, down)
  }
  put()
  return { fill, stroke: null, clip: null, flags: 1 } as unknown as uPlot.Series.Paths
}

const linear = (uPlot.paths.linear as NonNullable<typeof uPlot.paths.linear>)()
/** A line as uPlot draws it, while it has no more values than pixels. */
const sparse: uPlot.Series.PathBuilder = (u, si, from, to) => (isDense(u, u.series[si]?.width ?? 1) ? null : linear(u, si, from, to))

const line = (color: string, width = 1.25, more: Partial<uPlot.Series> = {}): uPlot.Series => ({ stroke: color, width, points: dots(color), paths: sparse, ...more })
/** The edge of a fill, not seen itself. */
const edge: uPlot.Series = { stroke: 'transparent', width: 0, points: { show: false }, paths: sparse }

const lookLine = (look: Look) => line(lookColor(look), look === 'asked' ? 1 : 1.25, look === 'asked' ? { dash: [3, 3] } : look === 'third' ? { dash: [6, 2] } : {})

/** How lane is drawn with these toggles from f; null when f has nothing for it. */
function drawing(lane: Lane, f: Frame, toggles: Toggles, workloads: string[]): Drawing | null {
  switch (lane.kind) {
    case 'bands': return bandDrawing(lane, f, toggles, workloads)
    case 'envelope': return envelopeDrawing(lane, f)
    case 'stack': return stackDrawing(lane, f, toggles)
    case 'lines': return lineDrawing(lane, f, toggles)
  }
}

/** Where lines lie over one another the first of a lane is seen, and what was asked for as dashes upon it. */
const depth = (look: Look) => (look === 'second' ? 0 : look === 'third' ? 1 : look === 'asked' ? 3 : 2)

function lineDrawing(lane: Lane, f: Frame, toggles: Toggles): Drawing | null {
  if (!f.grid) return null
  const d: Drawing = { data: [f.grid.x], series: [{}], bands: [] }
  const parts = lane.parts.filter((p) => !toggles.off.has(partName(p))).sort((a, b) => depth(a.look) - depth(b.look))
  for (const p of parts) {
    const s = f.series.get(p.id)
    const color = lookColor(p.look)
    // No failure is no line: red says that there is one.
    const rare = p.look === 'fail' && s ? s.mean.map((v, i) => (v === 0 && !s.mean[i - 1] && !s.mean[i + 1] ? null : v)) : null
    const show = (v: N[]): N[] => (lane.log ? v.map((x) => (x !== null && x <= 0 ? 1e-4 : x)) : v)
    if (s?.min && s.max && lane.parts.length === 1) {
      d.series.push(edge, edge)
      d.data.push(show(s.max), show(s.min))
      d.bands.push({ series: [d.data.length - 2, d.data.length - 1], fill: alpha(color, 0.18) })
    }
    d.data.push(rare ?? (s ? show(s.mean) : empty(f.grid.n)))
    d.series.push(lookLine(p.look))
  }
  return parts.length ? d : null
}

function stackDrawing(lane: Lane, f: Frame, toggles: Toggles): Drawing | null {
  if (!f.grid) return null
  const n = f.grid.n
  const d: Drawing = { data: [f.grid.x], series: [{}], bands: [] }
  let sum: N[] = empty(n)
  for (const p of addends(lane)) {
    if (toggles.off.has(partName(p))) continue
    const v = f.series.get(p.id)?.mean ?? []
    const next: N[] = new Array<N>(n)
    for (let i = 0; i < n; i++) {
      const a = sum[i] ?? null
      const b = v[i] ?? null
      next[i] = a === null && b === null ? null : (a ?? 0) + (b ?? 0)
    }
    const color = lookColor(p.look)
    const first = d.data.length === 1
    d.data.push(next)
    d.series.push(line(color, 1, first ? { fill: alpha(color, 0.45) } : {}))
    if (!first) d.bands.push({ series: [d.data.length - 1, d.data.length - 2], fill: alpha(color, 0.45) })
    sum = next
  }
  for (const p of lane.parts) {
    if (p.look.startsWith('w') || toggles.off.has(partName(p))) continue
    d.data.push(f.series.get(p.id)?.mean ?? empty(n))
    d.series.push(lookLine(p.look))
  }
  return d.data.length > 1 ? d : null
}

function bandDrawing(lane: Lane, f: Frame, toggles: Toggles, workloads: string[]): Drawing | null {
  if (!f.bandAxis) return null
  const d: Drawing = { data: [f.bandAxis.x], series: [{}], bands: [] }
  const add = (b: Band | undefined, color: string, main: boolean) => {
    if (!b) return
    const at = d.data.length
    const p50 = !toggles.off.has('p50')
    const p95 = !toggles.off.has('p95')
    if (p95) {
      d.data.push(b.p95, b.p50)
      d.series.push(line(alpha(color, 0.45), 1), edge)
      d.bands.push({ series: [at, at + 1], fill: alpha(color, main ? 0.16 : 0.22) })
    }
    if (p50) {
      d.data.push(b.p50)
      d.series.push(line(color, 1.5))
    }
    if (main && !toggles.off.has('p99')) {
      d.data.push(b.p99)
      d.series.push({ paths: marks, width: 0, stroke: 'transparent', fill: alpha(color, 0.75), points: { show: false } })
    }
  }
  if (!toggles.off.has('all')) add(f.bands.get(bandKey(lane.figure as string, '')), palette().accent, true)
  for (const w of toggles.workloads) add(f.bands.get(bandKey(lane.figure as string, w)), workColor(workloads.indexOf(w)), false)
  return d.data.length > 1 ? d : null
}

function envelopeDrawing(lane: Lane, f: Frame): Drawing | null {
  const e = f.envelopes.get(envelopeKey(lane))
  if (!e) return null
  const p = palette()
  return {
    data: [e.axis.x, e.grid.max, e.grid.min, e.grid.median],
    series: [{}, line(alpha(p.muted, 0.7), 1), line(alpha(p.muted, 0.7), 1), line(p.accent, 1.5)],
    bands: [{ series: [1, 2], fill: alpha(p.muted, 0.18) }],
  }
}

const empty = (n: number): N[] => new Array<N>(n).fill(null)

export const partName = (p: Lane['parts'][number]) => (p.word ? t(p.word) : p.name)

/** A value at an axis: no zeros that say nothing. */
function axisText(v: number, lane: Lane): string {
  return v === 0 ? '0' : brief(figure(v, lane.unit, lane.rate))
}

/** Round values between two on a log axis, at most some: 1, 2, 5 of each decade where there is room, else decades, else some of them. */
export function logMarks(min: number, max: number, most: number): number[] {
  const all: number[] = []
  for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)) && all.length < 200; e++) for (const f of [1, 2, 5]) all.push(f * 10 ** e)
  const inside = all.filter((v) => v >= min * (1 - 1e-9) && v <= max * (1 + 1e-9))
  if (inside.length <= most) return inside
  const tens = inside.filter((v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9)
  if (tens.length >= 2) return tens.filter((_, i) => i % Math.ceil(tens.length / most) === 0)
  return inside.filter((_, i) => i % Math.ceil(inside.length / most) === 0)
}

/** The right end of the rightmost of some places of a width between two ends that nothing is in; the rightmost where all are taken. */
export function roomFor(wide: number, left: number, right: number, taken: (a: number, b: number) => boolean): number {
  for (let i = 0; i < 8; i++) {
    const end = right - (i / 7) * Math.max(right - left - wide, 0)
    if (!taken(end - wide, end)) return end
  }
  return right
}

/** Whether a line of a plot goes through a rectangle of its canvas. */
function covers(u: uPlot, left: number, right: number, top: number, bottom: number): boolean {
  const x = u.data[0]
  const at = (px: number) => u.posToIdx(px, true)
  // With the neighbours outside: the line to them goes through as well.
  const from = Math.max(0, at(left) - 1)
  const to = Math.min(x.length - 1, at(right) + 1)
  return u.series.some((s, si) => {
    if (si === 0 || s.show === false) return false
    let high = Infinity
    let low = -Infinity
    for (let i = from; i <= to; i++) {
      const v = u.data[si]?.[i]
      if (v === null || v === undefined) continue
      const y = u.valToPos(v, 'y', true)
      high = Math.min(high, y)
      low = Math.max(low, y)
    }
    return high <= bottom && low >= top
  })
}

/** The plot of a lane in an element, until destroyed. */
export class Plot {
  #u: uPlot | null = null
  #shape = ''
  #slo: number | null = null
  #from: Frame | null = null
  #drawn: Drawing | null = null

  constructor(readonly host: HTMLElement, readonly board: Board, public lane: Lane) {}

  /** Draws what is known of a window. False when nothing is. */
  draw(toggles: Toggles, window: Span, width: number, height: number, fresh: boolean): boolean {
    const f = this.board.frame()
    const u = this.#u
    if (f !== this.#from) fresh = true
    this.#from = f
    if (u && !fresh && u.width === width && u.height === height) {
      u.setScale('x', { min: window.from, max: window.to })
      return true
    }
    const d = f && drawing(this.lane, f, toggles, this.board.doc.workloads)
    if (!d) {
      this.destroy()
      return false
    }
    // The same lines as before only get new figures; others need a new plot.
    const shape = JSON.stringify([d.series.length, d.bands.map((b) => b.series), [...toggles.off], toggles.workloads, palette().background, palette().accent, this.lane.parts.map((p) => p.id)])
    const data = d.data as uPlot.AlignedData
    this.#drawn = d
    this.#slo = this.lane.figure ? (this.board.doc.slo.find((s) => !s.workload && s.metric === this.lane.figure)?.limit ?? null) : null
    if (u && shape === this.#shape) {
      if (u.width !== width || u.height !== height) u.setSize({ width, height })
      u.batch(() => {
        u.setData(data, false)
        u.setScale('x', { min: window.from, max: window.to })
      })
      return true
    }
    this.destroy()
    this.#shape = shape
    this.#u = new uPlot(this.#options(d, window, width, height), data, this.host)
    return true
  }

  #options(d: Drawing, window: Span, width: number, height: number): uPlot.Options {
    const p = palette()
    const log = this.lane.log === true
    const share = this.lane.unit === '1'
    return {
      width, height,
      padding: [8, rightPad, 7, 0],
      cursor: { show: false },
      legend: { show: false },
      scales: {
        // At first too the plot shows the window, not from its first value to its last.
        x: { time: false, min: window.from, max: window.to, range: (_u, min, max) => [min ?? window.from, max ?? window.to] },
        y: {
          distr: log ? 3 : 1,
          range: (_u, min, max) => {
            if (log) {
              if (!(max > 0)) return [1e-4, 1]
              const lo = 10 ** Math.floor(Math.log10(Math.max(min, 1e-4)) + 1e-9)
              return [lo, Math.max(10 ** Math.ceil(Math.log10(max) - 1e-9), lo * 10)]
            }
            // Before the first value, the limit says how high the plot is.
            if (max == null) return [0, this.#slo === null ? 1 : niceTop(this.#slo * 1.05)]
            let top = max
            // The limit is worth its room unless it is far above everything.
            if (this.#slo !== null && this.#slo <= 2.5 * max) top = Math.max(top, this.#slo * 1.05)
            top = niceTop(top * 1.02)
            if (share && top > 0.5 && top < 1) top = 1
            if (share && max <= 1.0001 && top > 1) top = 1
            return [Math.min(0, min ?? 0), top]
          },
        },
      },
      axes: [
        { show: false },
        {
          side: 3, size: gutter, gap: 6, font: '11px ' + getComputedStyle(document.body).fontFamily, stroke: p.muted, labelSize: 0,
          grid: { stroke: p.line, width: 1 }, ticks: { show: false },
          splits: (_u, _i, min, max) => (log ? logMarks(min, max, Math.floor(height / 24)) : height > 160 ? [0, 0.25, 0.5, 0.75, 1].map((s) => max * s) : [0, max / 2, max]),
          values: (_u, splits) => splits.map((v) => (v === null ? '' : axisText(v, this.lane))),
          filter: ((_u: uPlot, splits: number[]) => splits) as never,
        },
      ],
      series: d.series,
      bands: d.bands,
      hooks: { drawSeries: [(u, si) => this.#dense(u, si)], draw: [(u) => this.#limit(u)] },
    }
  }

  // What has more values than there are pixels across: uPlot has left it out, it is drawn here.
  #dense(u: uPlot, si: number) {
    const d = this.#drawn
    const s = d?.series[si]
    if (!d || !s || s.paths === marks || !isDense(u, s.width ?? 1)) return
    const wide = columnWidth(s.width ?? 1)
    const of = (i: number) => columnsOf(u, i, wide)
    for (const b of d.bands) {
      if (b.series[0] !== si) continue
      const below = d.series[b.series[1]]
      const lower = of(b.series[1])
      fillColumns(u, wide, of(si).top, below === edge ? lower.bottom : lower.top, b.fill as string)
    }
    if (typeof s.fill === 'string') fillColumns(u, wide, of(si).top, null, s.fill)
    if (s !== edge) lineColumns(u, wide, of(si), s.stroke as string, s.width ?? 1, s.dash)
  }

  // The limit as a dashed line, or, where it is far above, as a word at the top.
  #limit(u: uPlot) {
    const limit = this.#slo
    if (limit === null) return
    const p = palette()
    const { ctx } = u
    const top = u.scales.y?.max ?? 0
    const px = devicePixelRatio || 1
    const { left, width } = u.bbox
    ctx.save()
    ctx.font = `${11 * px}px ${getComputedStyle(document.body).fontFamily}`
    ctx.textAlign = 'right'
    const text = t('slo', { limit: brief(duration(limit)) })
    if (limit <= top) {
      const y = Math.round(u.valToPos(limit, 'y', true)) + 0.5
      ctx.strokeStyle = p.text
      ctx.globalAlpha = 0.75
      ctx.lineWidth = px
      ctx.setLineDash([5 * px, 4 * px])
      ctx.beginPath()
      ctx.moveTo(left, y)
      ctx.lineTo(left + width, y)
      ctx.stroke()
      ctx.globalAlpha = 1
      // Its foot and its head keep off the line.
      this.#word(u, text, y - 16 * px < u.bbox.top ? y + 14 * px : y - 6 * px, px)
    } else {
      this.#word(u, text + ' ↑', u.bbox.top + 10 * px, px)
    }
    ctx.restore()
  }

  // A word where it covers no line, at the right if it can be; on a patch of the background, so that it can be read over what is there even so.
  #word(u: uPlot, text: string, base: number, px: number) {
    const { ctx } = u
    const p = palette()
    const w = ctx.measureText(text).width + 6 * px
    const { left, width } = u.bbox
    const right = roomFor(w, left, left + width, (a, b) => covers(u, a, b, base - 10 * px, base + 3 * px))
    ctx.fillStyle = alpha(p.background, 0.85)
    ctx.fillRect(right - w, base - 10 * px, w, 13 * px)
    ctx.fillStyle = p.muted
    ctx.fillText(text, right - 3 * px, base)
  }

  destroy() {
    this.#u?.destroy()
    this.#u = null
    this.#shape = ''
  }
}
