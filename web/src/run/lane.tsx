// One lane on screen: its label with the values of the moment, and its plot. The component
// renders when the shape changes; values and plot follow the board frame by frame, by hand.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { HeatGrid, Ms } from '../api'
import { duration, elapsed, type Figure, figure, plain } from '../format'
import { told } from '../i18n/told'
import { onTheme } from '../theme'
import { type Board, type Change, envelopeKey, meanInFlight } from './board'
import { type Axis, bandKey, type Frame, indices, lastKnown, summary } from './frame'
import { Heat } from './heat'
import { addends, deviceName, type Lane, shortNames } from './lanes'
import { gutter, partName, Plot, rightPad, type Toggles } from './plot'
import { type Cell, type Column, rowsOf } from './table'
import { tickText } from './view'
import { t } from './words'

export const laneName = (l: Lane) => {
  const name = l.word ? t(l.word) : told(l.title)
  return name.charAt(0).toUpperCase() + name.slice(1)
}

/** Heights: usual, enlarged. */
export const usualHeight = () => (innerWidth >= 2400 ? 112 : 96)
const large = 288

interface Reading { text: string; unit: string }
const reading = (f: Figure): Reading => f
const none: Reading = { text: '', unit: '' }

/** What the label says: one value beside the name, and one beside each entry of the legend. */
interface Readings { main: Reading; parts: Map<string, Reading> }

/** Values at an instant, or without one of the range: the latest of a live run, else the mean. */
export function readings(board: Board, lane: Lane, at: Ms | null): Readings {
  const out: Readings = { main: none, parts: new Map() }
  const f = board.frame()
  if (!f) return out
  const value = (v: number | null) => (v === null ? none : reading(figure(v, lane.unit, lane.rate)))
  const range = board.range
  const latest = board.live && !board.selection ? board.now : null
  if (lane.kind === 'bands') {
    const b = f.bands.get(bandKey(lane.figure as string, ''))
    const axis = f.bandAxis
    if (at === null && latest === null) {
      const s = board.figures?.latency_ms[lane.figure as 'ttft']
      for (const k of ['p50', 'p95', 'p99'] as const) out.parts.set(k, s ? reading(duration(s[k])) : none)
    } else if (b && axis) {
      const when = at ?? (latest as number)
      const i = axis.at(when)
      for (const k of ['p50', 'p95', 'p99'] as const) {
        const v = at === null ? lastKnown(axis, b[k], when) : (b[k][i] ?? null)
        out.parts.set(k, v === null ? none : reading(duration(v)))
      }
    }
    return out
  }
  if (lane.kind === 'envelope') {
    const e = f.envelopes.get(envelopeKey(lane))
    if (!e) return out
    for (const k of ['max', 'median', 'min'] as const) {
      const list = e.grid[k]
      const v = at !== null ? (list[e.axis.at(at)] ?? null) : latest !== null ? lastKnown(e.axis, list, latest) : (summary(e.axis, { mean: list }, range.from, range.to)?.mean ?? null)
      out.parts.set(k, value(v))
    }
    return out
  }
  const axis = f.grid
  if (!axis) return out
  const exact = at === null && latest === null ? exactly(board) : {}
  const signals = new Map(board.list.series.map((s) => [s.id, s.workload === '' ? s.signal : '']))
  let total = 0
  let known = 0
  const adds = new Set(addends(lane))
  for (const p of lane.parts) {
    const s = f.series.get(p.id)
    if (!s) continue
    const v = at !== null ? (s.mean[axis.at(at)] ?? null) : latest !== null ? lastKnown(axis, s.mean, latest) : (exact[signals.get(p.id) ?? ''] ?? summary(axis, s, range.from, range.to)?.mean ?? null)
    out.parts.set(partName(p), value(v))
    if (v !== null && adds.has(p)) { total += v; known++ }
  }
  const any = known > 0
  if (any && lane.devices) out.main = value(total / known)
  else if (any && (lane.parts.length === 1 || lane.kind === 'stack')) out.main = value(exactTotal(board, lane, exact) ?? total)
  return out
}

/**
 * What the server has worked out of the range, request by request: finer than cells, which lie
 * across its ends.
 */
function exactly(board: Board): Record<string, number | null> {
  const f = board.figures
  const r = board.range
  // Those of another range are still there while the new ones are on their way.
  if (!f || Math.abs(f.from - r.from) > 1 || Math.abs(f.to - r.to) > 1) return {}
  return {
    'client.output_tokens': f.tokens.output_per_s, 'client.prompt_tokens': f.tokens.prompt_per_s, 'client.requests_ok': f.completed_rps,
    'client.requests_sent': f.achieved_rps, 'client.requests_scheduled': f.offered_rps,
    'client.requests_in_flight': board.selection ? null : meanInFlight(board.doc),
  }
}

/** Of a lane that is stacked by workload: what the whole has, where all of it is of one signal. */
function exactTotal(board: Board, lane: Lane, exact: Record<string, number | null>): number | null {
  if (lane.kind !== 'stack') return null
  const ids = new Set(addends(lane).map((p) => p.id))
  const names = new Set(board.list.series.filter((s) => ids.has(s.id)).map((s) => s.signal))
  const [name] = names
  return names.size === 1 && name !== undefined ? (exact[name] ?? null) : null
}

export function LaneView({ board, lane, width, height, heat, current }: { board: Board; lane: Lane; width: number; height: number; heat: boolean; current: boolean }) {
  const root = useRef<HTMLDivElement>(null)
  const host = useRef<HTMLDivElement>(null)
  const label = useRef<HTMLDivElement>(null)
  const note = useRef<HTMLSpanElement>(null)
  const [off, setOff] = useState<ReadonlySet<string>>(() => new Set())
  const [workloads, setWorkloads] = useState<string[]>([])
  const [table, setTable] = useState(false)
  const big = height > usualHeight() * 1.5
  const toggles = useRef<Toggles>({ off, workloads })
  toggles.current = { off, workloads }
  const draw = useRef<(what: ReadonlySet<Change>) => void>(() => {})

  useLayoutEffect(() => {
    const el = host.current
    const box = root.current
    if (!el || !box) return
    const plot = heat ? null : new Plot(el, board, lane)
    const map = heat ? new Heat(el) : null
    let heatFor = ''
    let begun = 0
    let drawn = 0
    let timer = 0
    let said = -Infinity
    let read = -Infinity
    const abort = new AbortController()
    const readHeat = () => {
      // What nobody sees is there for the printer; of a live run it need not be of this second.
      if (!painter.visible && board.live && performance.now() - read < 30_000) return
      const w = board.window
      const columns = Math.max(60, Math.min(600, Math.round((width - gutter - rightPad) / 4)))
      const key = `${Math.round(w.from)}|${Math.round(w.to)}|${columns}|${board.tick}`
      if (key === heatFor || !map) return
      heatFor = key
      read = performance.now()
      const turn = ++begun
      board.source.heat(lane.figure as string, '', w.from, w.to, columns, abort.signal).then(
        // An answer that comes behind a newer one is of what was looked at before.
        (g: HeatGrid) => { if (turn < drawn) return; drawn = turn; map.set(g); if (painter.visible) draw.current(new Set(['data'])) },
        () => { if (key === heatFor) heatFor = '' },
      )
    }
    draw.current = (what) => {
      const redraw = what.has('data') || what.has('view') || what.has('shape')
      if (redraw) {
        const ok = plot
          ? plot.draw(toggles.current, board.window, gutter + board.width + rightPad, height, what.has('data') || what.has('shape'))
          : map?.draw(board.window, gutter + board.width + rightPad, height) ?? false
        // A plot in words for those who do not see it; live, no oftener than they could listen.
        const time = performance.now()
        if (what.has('data') && time - said > 5000) {
          said = time
          el.setAttribute('aria-label', summaryText(board, lane))
        }
        if (note.current && board.base) {
          const empty = !ok || (!map && (what.has('data') || what.has('shape') ? isEmpty(board, lane) : note.current.textContent !== ''))
          note.current.textContent = !empty ? '' : board.live && board.snapshot?.header.scheduled === 0 ? t('waitingRun') : t('nothingIn')
        }
      }
      // Panning alone changes no value: they are at the cursor or of the range.
      const frame = board.frame()
      if (redraw && !what.has('data') && !what.has('shape') && !what.has('cursor') && frame === valued) return
      valued = frame
      values()
    }
    let valued: Frame | null = null
    const values = () => {
      const at = label.current
      if (!at) return
      const r = readings(board, lane, board.cursor)
      for (const el of at.querySelectorAll<HTMLElement>('[data-value]')) {
        const name = el.dataset['value'] as string
        const v = name === '' ? r.main : (r.parts.get(name) ?? none)
        const [num, unit] = el.children as unknown as [HTMLElement, HTMLElement]
        if (num.textContent !== v.text) num.textContent = v.text
        if (unit.textContent !== v.unit) unit.textContent = v.unit
      }
    }
    const painter = { visible: false, heavy: true, paint: (what: ReadonlySet<Change>) => draw.current(what) }
    const remove = [board.addPainter(painter)]
    // A page can be printed at any moment, also what is out of sight: for a map that is read ahead.
    if (map) {
      const ahead = () => { clearTimeout(timer); timer = window.setTimeout(readHeat, painter.visible ? 90 : 500) }
      remove.push(board.addPainter({ visible: true, paint: (what) => { if (what.has('data') || what.has('view') || what.has('shape')) ahead() } }))
      ahead()
    }
    const seen = new IntersectionObserver((entries) => {
      painter.visible = entries[entries.length - 1]?.isIntersecting ?? false
      if (painter.visible) draw.current(new Set(['data']))
    }, { rootMargin: '120px 0px' })
    seen.observe(box)
    const themed = onTheme(() => { if (painter.visible) draw.current(new Set(['data', 'view'])) })
    return () => {
      abort.abort()
      clearTimeout(timer)
      for (const f of remove) f()
      seen.disconnect()
      themed()
      plot?.destroy()
      map?.destroy()
    }
  }, [lane, heat, width, height])

  useEffect(() => draw.current(new Set(['data'])), [off, workloads])

  const toggle = (name: string) => {
    const next = new Set(off)
    if (!next.delete(name)) next.add(name)
    setOff(next)
  }
  const toggleWorkload = (w: string) => {
    const on = !workloads.includes(w)
    if (on) board.showWorkload(w, true)
    setWorkloads(on ? [...workloads, w] : workloads.filter((x) => x !== w))
  }
  const drag = (e: PointerEvent) => {
    const el = e.currentTarget as HTMLElement
    const from = e.clientY
    const was = height
    el.setPointerCapture(e.pointerId)
    const moveTo = (m: PointerEvent) => board.setHeight(lane.key, was + m.clientY - from)
    const done = () => { el.removeEventListener('pointermove', moveTo); el.removeEventListener('pointerup', done); el.removeEventListener('pointercancel', done) }
    el.addEventListener('pointermove', moveTo)
    el.addEventListener('pointerup', done)
    el.addEventListener('pointercancel', done)
    e.preventDefault()
  }
  const gripKey = (e: KeyboardEvent) => {
    const by = e.key === 'ArrowDown' ? 16 : e.key === 'ArrowUp' ? -16 : 0
    if (!by) return
    e.preventDefault()
    e.stopPropagation()
    board.setHeight(lane.key, height + by)
  }
  const onDrop = (e: DragEvent) => {
    const key = e.dataTransfer?.getData('text/x-lane')
    if (key) { e.preventDefault(); board.move(key, lane.key) }
  }

  return (
    <div
      ref={root} class={'lane' + (current ? ' current' : '') + (big ? ' big' : '')} data-lane={lane.key} role="group" aria-label={laneName(lane)}
      onDragOver={(e) => { if (e.dataTransfer?.types.includes('text/x-lane')) e.preventDefault() }} onDrop={onDrop}
    >
      <div class="lane-label" ref={label} style={{ maxHeight: height + 'px' }}>
        <div class="lane-head">
          <button
            type="button" class="plain lane-name cut" title={t('laneHelp')} draggable aria-expanded={big}
            onDragStart={(e) => e.dataTransfer?.setData('text/x-lane', lane.key)}
            onClick={() => { board.current = lane.key; board.setHeight(lane.key, big ? null : large) }}
          >{laneName(lane)}</button>
          {(lane.parts.length === 1 || lane.kind === 'stack' || lane.devices) && <Value name="" />}
          {lane.kind === 'envelope' && <span class="small muted num">{t('members', { n: lane.members ?? 0 })}</span>}
        </div>
        <Legend board={board} lane={lane} off={off} toggle={toggle} workloads={workloads} toggleWorkload={toggleWorkload} heat={heat} enlarge={() => board.setHeight(lane.key, large)} />
      </div>
      <div class="lane-plot" style={{ height: height + 'px' }}>
        <div ref={host} class="lane-host" role="img" aria-label={laneName(lane)} />
        <span ref={note} class="lane-note faint small" />
      </div>
      <div class="lane-more">
        {lane.kind === 'bands' && <button type="button" class="plain" aria-pressed={heat} onClick={() => board.toggleHeat(lane.key)}>{t('heat')}</button>}
        <button type="button" class="plain" aria-pressed={table} data-table onClick={() => setTable(!table)}>{t('table')}</button>
      </div>
      {table && <LaneTable board={board} lane={lane} workloads={workloads} />}
      <div class="lane-grip no-print" role="separator" aria-orientation="horizontal" aria-label={t('resize', { lane: laneName(lane) })} aria-valuenow={height} aria-valuemin={48} aria-valuemax={600} tabIndex={0} onPointerDown={drag} onKeyDown={gripKey} onDblClick={() => board.setHeight(lane.key, null)} />
    </div>
  )
}

function Value({ name }: { name: string }) {
  return <span class="num lane-value" data-value={name}><span /><span class="unit" /></span>
}

interface LegendProps { board: Board; lane: Lane; off: ReadonlySet<string>; toggle: (n: string) => void; workloads: string[]; toggleWorkload: (w: string) => void; heat: boolean; /** Makes room for all names. */ enlarge: () => void }

function Legend({ board, lane, off, toggle, workloads, toggleWorkload, heat, enlarge }: LegendProps) {
  if (lane.kind === 'bands') {
    const short = shortNames(board.doc.workloads)
    return (
      <>
        <ul class="legend">
          {(['p50', 'p95', 'p99'] as const).map((k) => (
            <li key={k}>
              <button type="button" class="plain entry" aria-pressed={!off.has(k)} disabled={heat} onClick={() => toggle(k)}><i class={`stroke band-${k}`} aria-hidden="true" />{k}</button>
              <Value name={k} />
            </li>
          ))}
        </ul>
        {!heat && board.doc.workloads.length > 1 && (
          <ul class={'legend chips workloads' + (board.doc.workloads.length > 2 ? ' many' : '')}>
            <li><button type="button" class="plain entry" aria-pressed={!off.has('all')} onClick={() => toggle('all')}>{t('all')}</button></li>
            <li class="by"><button type="button" class="plain entry" title={board.doc.workloads.join('\n')} onClick={enlarge}>{t('byWorkload', { n: board.doc.workloads.length })}</button></li>
            {board.doc.workloads.map((w, i) => (
              <li key={w}><button type="button" class="plain entry" aria-pressed={workloads.includes(w)} onClick={() => toggleWorkload(w)} aria-label={w} title={w}><i class={`swatch w${i % 8}`} aria-hidden="true" /><span class="cut">{short[i]}</span></button></li>
            ))}
          </ul>
        )}
      </>
    )
  }
  if (lane.kind === 'envelope') return <EnvelopeLegend board={board} lane={lane} />
  if (lane.parts.length < 2) return null
  return (
    <ul class={'legend' + (lane.parts.length > 5 ? ' chips pairs' : lane.parts.length > 4 ? ' dense' : '')}>
      {lane.parts.map((p) => {
        const name = partName(p)
        return (
          <li key={p.id}>
            <button type="button" class="plain entry" aria-pressed={!off.has(name)} onClick={() => toggle(name)} title={name}>
              <i class={p.look.startsWith('w') ? `swatch ${p.look}` : `stroke look-${p.look}`} aria-hidden="true" /><span class="cut">{name}</span>
            </button>
            <Value name={name} />
          </li>
        )
      })}
    </ul>
  )
}

/** The legend of an envelope, which names the worst member of the moment. */
function EnvelopeLegend({ board, lane }: { board: Board; lane: Lane }) {
  const [, again] = useState(0)
  useEffect(() => board.onHead(() => again((n) => n + 1)), [board])
  const worst = board.frame()?.envelopes.get(envelopeKey(lane))?.grid.worst
  const name = worst ? deviceName(worst) : ''
  return (
    <ul class="legend">
      {(['max', 'median', 'min'] as const).map((k) => <li key={k}><span class="entry"><i class={`stroke env-${k}`} aria-hidden="true" />{t(k)}</span><Value name={k} /></li>)}
      {name && <li class="small muted cut" title={`${worst?.source ?? ''} ${name}`}><span class="cut">{t('worst', { name })}</span></li>}
    </ul>
  )
}

/** The columns of a lane's table: what its plot draws, of the workloads too that were added to it. */
function columnsOf(board: Board, lane: Lane, workloads: readonly string[]): { axis: Axis | null; columns: Column[] } {
  const f = board.frame()
  if (!f) return { axis: null, columns: [] }
  if (lane.kind === 'bands') {
    const all = (['p50', 'p95', 'p99'] as const).map((k): Column => ({ name: k, value: f.bands.get(bandKey(lane.figure as string, ''))?.[k] ?? [], mean: false }))
    const more = workloads.flatMap((w) => (['p50', 'p95'] as const).map((k): Column => ({ name: `${w} ${k}`, value: f.bands.get(bandKey(lane.figure as string, w))?.[k] ?? [], mean: false })))
    return { axis: f.bandAxis, columns: all.concat(more) }
  }
  if (lane.kind === 'envelope') {
    const e = f.envelopes.get(envelopeKey(lane))
    return { axis: e?.axis ?? null, columns: (['max', 'median', 'min'] as const).map((k) => ({ name: t(k), value: e?.grid[k] ?? [], mean: false })) }
  }
  const parts = lane.parts.map((p): Column => { const s = f.series.get(p.id); return { name: partName(p), value: s?.mean ?? [], low: s?.min, high: s?.max, mean: true } })
  return { axis: f.grid, columns: lane.kind === 'stack' ? [{ name: t('all'), value: total(lane, f), mean: true }, ...parts] : parts }
}

/** A cell in words: one value, or its extremes where they are not the same, behind its mean where it has one. */
function cellText(c: Cell, say: (v: number) => string): string {
  if (c === null) return '–'
  const [low, high] = [say(c.low), say(c.high)]
  return low === high ? low : c.mean === null ? `${low} – ${high}` : `${say(c.mean)} (${low} – ${high})`
}

/** The same figures as a table: for those who do not see the plot, and for exact reading. */
function LaneTable({ board, lane, workloads }: { board: Board; lane: Lane; workloads: readonly string[] }) {
  const [, again] = useState(0)
  // While a hand moves the view the rows wait.
  useEffect(() => {
    let timer = 0
    const later = (what: ReadonlySet<Change>) => { if (what.has('view') || what.has('data') || what.has('shape')) timer ||= window.setTimeout(() => { timer = 0; again((n) => n + 1) }, 200) }
    const off = board.addPainter({ visible: true, paint: later })
    return () => { clearTimeout(timer); off() }
  }, [board])
  const w = board.window
  const { axis, columns } = columnsOf(board, lane, workloads)
  const { rows, span } = axis ? rowsOf(axis, columns, w.from, w.to) : { rows: [], span: 0 }
  const grain = [1000, 100, 10].find((g) => span % g === 0 && (axis?.from ?? 0) % g === 0) ?? 1
  const say = (v: number) => plain(lane.kind === 'bands' ? duration(v) : figure(v, lane.unit, lane.rate))
  return (
    <div class="lane-table scroll-x" tabIndex={0} role="region" aria-label={`${laneName(lane)}: ${t('table')}`}>
      <table class="table">
        <caption class="visually-hidden">{summaryText(board, lane)}</caption>
        <thead><tr><th scope="col">{t('timeRows', { span: plain(duration(span)) })}</th>{columns.map((c) => <th key={c.name} scope="col" class="num">{c.name}</th>)}</tr></thead>
        <tbody>
          {rows.map((r) => <tr key={r.from}><th scope="row" class="num">{tickText(r.from, grain)}</th>{r.cells.map((c, i) => <td key={i} class="num">{cellText(c, say)}</td>)}</tr>)}
        </tbody>
      </table>
    </div>
  )
}

/** What a stack adds up to, in each bucket. */
function total(lane: Lane, f: Frame): (number | null)[] {
  const all = addends(lane).map((p) => f.series.get(p.id)?.mean ?? [])
  return (f.grid?.x ?? []).map((_, i) => all.reduce<number | null>((sum, v) => (v[i] == null ? sum : (sum ?? 0) + (v[i] as number)), null))
}

/** A lane in one sentence. */
function summaryText(board: Board, lane: Lane): string {
  const f = board.frame()
  const w = board.window
  const p = lane.parts[0]
  let low: number | null = null
  let high: number | null = null
  let last: number | null = null
  if (lane.kind === 'bands' && f?.bandAxis) {
    const b = f.bands.get(bandKey(lane.figure as string, ''))
    const [a, z] = indices(f.bandAxis, w.from, w.to)
    for (let i = a; b && i <= z; i++) {
      const v = b.p95[i]
      if (v == null) continue
      low = low === null ? v : Math.min(low, v)
      high = high === null ? v : Math.max(high, v)
      last = v
    }
  } else if (p && f?.grid) {
    const s = lane.kind === 'stack' ? { mean: total(lane, f) } : f.series.get(p.id)
    const sum = s && summary(f.grid, s, w.from, w.to)
    if (sum) { low = sum.min; high = sum.max; last = sum.last }
  }
  const say = (v: number | null) => plain(figure(v, lane.unit, lane.rate))
  return `${t('laneSummary', { lane: laneName(lane), low: say(low), high: say(high), last: say(last) })} (${elapsed(w.from)}–${elapsed(w.to)})`
}

/** Whether nothing at all is known of what a lane would draw on screen. */
function isEmpty(board: Board, lane: Lane): boolean {
  const f = board.frame()
  const w = board.window
  const none = (axis: Axis | null, values: (number | null)[] | undefined) => {
    if (!axis || !values) return true
    const [a, b] = indices(axis, w.from, w.to)
    // What goes on is known at its end: mostly one look is enough.
    for (let i = b; i >= a; i--) if (values[i] != null) return false
    return true
  }
  if (!f) return false
  if (lane.kind === 'bands') return none(f.bandAxis, f.bands.get(bandKey(lane.figure as string, ''))?.p50)
  if (lane.kind === 'envelope') {
    const e = f.envelopes.get(envelopeKey(lane))
    return none(e?.axis ?? null, e?.grid.median)
  }
  return lane.parts.every((p) => none(f.grid, f.series.get(p.id)?.mean))
}

/** Why a lane has nothing to draw and never will, or null where it has something. */
export function lackOf(board: Board, lane: Lane): NonNullable<Lane['missing']> | null {
  const m = lane.missing
  if (m?.why) return m
  const { run, summary } = board.doc
  if (board.live) return m || (lane.kind === 'bands' && board.awaits) ? { why: t(board.awaits ? 'awaits' : 'noData'), fix: '' } : null
  const bare = lane.kind === 'bands' && board.base !== null && !board.base.bands.get(bandKey(lane.figure as string, ''))?.count.some((n) => n)
  if (!m && !bare) return null
  const ofRequests = lane.group === 'load' || lane.group === 'feel' || lane.group === 'client'
  if (ofRequests && run.requests === 0 && !board.list.series.some((s) => s.signal === 'client.requests_sent')) return { why: t('noneSent'), fix: '' }
  const ok = (summary as { requests?: { ok?: number } } | null)?.requests?.ok
  if (lane.group === 'feel' && ok === 0) return { why: t('noneOk', { n: run.requests ?? 0 }), fix: '' }
  return { why: t(bare ? 'noFigure' : ofRequests ? 'noData' : 'notStated'), fix: '' }
}

/** Lanes with nothing to draw: one grey line that says why, and what to start so that there is something; all when they are the whole group. */
export function MissingLanes({ lanes, lack, all }: { lanes: Lane[]; lack: NonNullable<Lane['missing']>; all: boolean }) {
  const one = lanes.length === 1 && !all ? lanes[0] : undefined
  return (
    <div class="lane-missing" data-lane={one?.key}>
      {one && <span class="lane-name">{laneName(one)}</span>}
      <span>{told(lack.why, lack.said)}{lack.fix && <>: <span class="mono">{told(lack.fix, lack.fix_said)}</span></>}</span>
      {!one && <span class="cut faint">{lanes.map(laneName).join(', ')}</span>}
    </div>
  )
}
