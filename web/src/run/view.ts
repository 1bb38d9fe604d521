// Which part of a run is looked at and which part is selected: arithmetic on times, without a
// screen. All times are milliseconds since the run's start.

import type { Ms, Phase } from '../api'

export interface Span { from: Ms; to: Ms }

/** The least that can be looked at. */
export const least = 200

export const length = (s: Span) => s.to - s.from

/** s moved and, where it is too long, shortened, so that it lies within the bounds. */
export function within(s: Span, bounds: Span): Span {
  const want = Math.min(Math.max(length(s), least), Math.max(length(bounds), least))
  let from = s.from
  if (from + want > bounds.to) from = bounds.to - want
  if (from < bounds.from) from = bounds.from
  return { from, to: from + want }
}

/** s made longer (factor over 1) or shorter, with the time at staying where it is on screen. */
export function zoom(s: Span, at: Ms, factor: number, bounds: Span): Span {
  const next = Math.min(Math.max(length(s) * factor, least), Math.max(length(bounds), least))
  const share = length(s) > 0 ? (at - s.from) / length(s) : 0.5
  const from = at - share * next
  return within({ from, to: from + next }, bounds)
}

/** s moved by a time. */
export const pan = (s: Span, by: Ms, bounds: Span) => within({ from: s.from + by, to: s.to + by }, bounds)

/** Two times in either order as a span. */
export const between = (a: Ms, b: Ms): Span => (a <= b ? { from: a, to: b } : { from: b, to: a })

/** A span as it stands in an address: seconds, "12.5-80". Times before the start have a sign: "~2.5-80". */
export function spanText(s: Span): string {
  const one = (v: Ms) => (v < 0 ? '~' : '') + String(Math.round(Math.abs(v)) / 1000)
  return `${one(s.from)}-${one(s.to)}`
}

/** The span that a text of an address names, or null when it names none. */
export function parseSpan(text: string | null): Span | null {
  const m = /^(~?\d+(?:\.\d+)?)-(~?\d+(?:\.\d+)?)$/.exec(text ?? '')
  if (!m) return null
  const one = (v: string) => Math.round((v.startsWith('~') ? -Number(v.slice(1)) : Number(v)) * 1000)
  const s = { from: one(m[1] as string), to: one(m[2] as string) }
  return s.to > s.from ? s : null
}

/** The steady window of a run: from its first steady phase to the end of its last. */
export function steady(phases: Phase[], span: Span): Span {
  const list = phases.filter((p) => p.name === 'steady')
  if (list.length === 0) return span
  return { from: Math.min(...list.map((p) => p.from)), to: Math.max(...list.map((p) => p.to ?? span.to)) }
}

/** The phases of a run, and in front of them what passed before its load began. */
export function shown(phases: Phase[]): { name: Phase['name'] | 'prepare'; step: number; from: Ms; to: Ms | null }[] {
  const first = phases[0]
  return first && first.from > 0 ? [{ name: 'prepare', step: first.step, from: 0, to: first.from }, ...phases] : phases
}

const nice = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 10800e3, 21600e3, 43200e3, 86400e3,
]

/** Times for an axis so that labels stand at least gap pixels apart. */
export function ticks(s: Span, width: number, gap = 88): { step: Ms; at: Ms[] } {
  const most = Math.max(1, Math.floor(width / gap))
  const want = length(s) / most
  let step = nice.find((n) => n >= want) ?? Math.ceil(want / 86400e3) * 86400e3
  if (!Number.isFinite(step) || step <= 0) step = 1000
  const at: Ms[] = []
  for (let i = Math.ceil(s.from / step); i * step <= s.to && at.length < 1000; i++) at.push(i * step)
  return { step, at }
}

/** A label for a tick, as fine as its step. */
export function tickText(t: Ms, step: Ms): string {
  const sign = t < 0 ? '−' : ''
  const a = Math.abs(t)
  const h = Math.floor(a / 3600e3)
  const m = Math.floor((a % 3600e3) / 60e3)
  const s = (a % 60e3) / 1000
  const places = step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3
  const sec = s.toFixed(places).padStart(places ? 3 + places : 2, '0')
  return sign + (h ? `${h}:${String(m).padStart(2, '0')}:${sec}` : `${m}:${sec}`)
}

/** The top of a y axis from 0 that holds max: 1, 2, 2.5 or 5 times a power of ten. */
export function niceTop(max: number): number {
  if (!(max > 0) || !Number.isFinite(max)) return 1
  const p = 10 ** Math.floor(Math.log10(max))
  for (const f of [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]) if (max <= f * p * 1.0000001) return f * p
  return 10 * p
}
