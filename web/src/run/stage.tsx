// All lanes on one time axis: the axis above and below, the strip of marks, and the pointer
// and range that go through all of them. What moves with the pointer is moved by hand.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Mark, Ms } from '../api'
import { elapsed, local } from '../format'
import { told } from '../i18n/told'
import { onPaper } from '../theme'
import { type Board, type Change } from './board'
import { lackOf, LaneView, MissingLanes, usualHeight } from './lane'
import { groups, type Lane } from './lanes'
import { gutter, rightPad } from './plot'
import { between, length, shown, steady, ticks, tickText } from './view'
import { known, t } from './words'

/** As in the style sheet; a printer's pages are asked, not the window behind them. */
const narrow = '(max-width: 639px)'

/** Where the plots begin and how wide they are, in pixels of the stage, of which so many may be taken. */
function measure(el: HTMLElement, most = Infinity): { left: number; width: number } {
  const all = Math.min(el.clientWidth, most)
  const label = matchMedia(narrow).matches ? 0 : parseFloat(getComputedStyle(el).getPropertyValue('--label')) || 180
  const left = label + gutter
  return { left, width: Math.max(80, all - left - rightPad) }
}

export function Stage({ board, mark, pick }: { board: Board; mark: Mark | null; pick: (m: Mark | null) => void }) {
  const root = useRef<HTMLDivElement>(null)
  const [box, setBox] = useState<{ left: number; width: number } | null>(null)
  const [, again] = useState(0)
  useEffect(() => board.onShape(() => again((n) => n + 1)), [board])
  useLayoutEffect(() => {
    const el = root.current
    if (!el) return
    const lay = (most?: number) => {
      const next = measure(el, most)
      board.width = next.width
      el.style.setProperty('--plot-left', next.left + 'px')
      return next
    }
    const fit = () => {
      const next = lay()
      setBox((b) => (b && b.left === next.left && b.width === next.width ? b : next))
      board.changed('view')
    }
    fit()
    const o = new ResizeObserver(fit)
    o.observe(el)
    const printed = onPaper((most) => { lay(most); board.paintNow() })
    return () => { o.disconnect(); printed() }
  }, [board])
  useEffect(() => (root.current && box ? pointers(root.current, board, box) : undefined), [board, box])
  const lanes = board.shown
  return (
    <div class="stage" ref={root}>
      <div class="stage-top">
        <TimeAxis board={board} box={box} />
        <Strip board={board} box={box} pick={pick} />
      </div>
      <div class="stage-lanes">
        <Under board={board} box={box} mark={mark} />
        {box && groups.map((g) => {
          const of = lanes.filter((l) => l.group === g)
          if (of.length === 0) return null
          return <GroupView key={g} board={board} name={t(g)} lanes={of} width={gutter + box.width + rightPad} />
        })}
        <Over board={board} box={box} />
      </div>
      <TimeAxis board={board} box={box} bottom />
    </div>
  )
}

function GroupView({ board, name, lanes, width }: { board: Board; name: string; lanes: Lane[]; width: number }) {
  // Lanes that stand together and are missing for one reason are one line.
  const parts: { lanes: Lane[]; lack: ReturnType<typeof lackOf> }[] = []
  for (const l of lanes) {
    const lack = lackOf(board, l)
    const last = parts[parts.length - 1]
    if (lack && last?.lack?.why === lack.why) last.lanes.push(l)
    else parts.push({ lanes: [l], lack })
  }
  return (
    <section class="group" aria-label={name}>
      <h2 class="group-name">{name}</h2>
      {parts.map(({ lanes: [l, ...more], lack }) => l && (lack ? <MissingLanes key={l.key} lanes={[l, ...more]} lack={lack} all={parts.length === 1} /> : <Still key={l.key} board={board} lane={l} width={width} />))}
    </section>
  )
}

/** A lane that renders only when something of its own has changed. */
function Still({ board, lane, width }: { board: Board; lane: Lane; width: number }) {
  const height = board.heights[lane.key] ?? usualHeight()
  const heat = lane.kind === 'bands' && board.isHeat(lane.key)
  const current = board.current === lane.key
  const workloads = lane.kind === 'bands' ? board.doc.workloads.join() : ''
  return useMemo(() => <LaneView board={board} lane={lane} width={width} height={height} heat={heat} current={current} />, [board, lane, width, height, heat, current, workloads])
}

type Box = { left: number; width: number } | null

function useHand(board: Board, deps: readonly unknown[], draw: (what: ReadonlySet<Change>) => void) {
  useLayoutEffect(() => {
    draw(new Set(['shape', 'view', 'cursor']))
    return board.addPainter({ visible: true, paint: draw })
  }, [board, ...deps])
}

/** A pool of elements under one parent: as many as are needed are shown. */
function pool(parent: HTMLElement, n: number, make: () => HTMLElement): HTMLElement[] {
  while (parent.children.length < n) parent.append(make())
  const all = [...parent.children] as HTMLElement[]
  all.forEach((el, i) => { el.hidden = i >= n })
  return all.slice(0, n)
}
const make = (name: string) => () => { const el = document.createElement('div'); el.className = name; return el }

/** About how wide a small word is, in pixels: it is asked for in every frame, so nothing is measured. */
const wide = (text: string) => { let n = 0; for (const c of text) n += c > '\u2e80' ? 11 : 6.4; return n }

function TimeAxis({ board, box, bottom = false }: { board: Board; box: Box; bottom?: boolean }) {
  const host = useRef<HTMLDivElement>(null)
  const chip = useRef<HTMLDivElement>(null)
  const started = Date.parse(board.doc.run.started)
  useHand(board, [box], (what) => {
    const el = host.current
    if (!el || !box) return
    const w = board.window
    const scale = board.width / length(w)
    if (what.has('view') || what.has('shape') || what.has('data')) {
      const { step, at } = ticks(w, board.width)
      pool(el, at.length, make('tick')).forEach((d, i) => {
        const text = tickText(at[i] as Ms, step)
        if (d.textContent !== text) d.textContent = text
        // The last word is not cut by the edge of the screen.
        const x = Math.min(((at[i] as Ms) - w.from) * scale, board.width + rightPad - 2 - wide(text) / 2)
        d.style.transform = `translateX(${x}px) translateX(-50%)`
      })
    }
    const c = chip.current
    if (!c || bottom) return
    const shown = board.cursor !== null && board.cursor >= w.from && board.cursor <= w.to
    c.hidden = !shown
    if (shown) {
      const at = board.cursor as Ms
      c.textContent = elapsed(at, true) + (Number.isNaN(started) ? '' : '  ' + local(new Date(started + at).toISOString()).slice(11))
      const x = (at - w.from) * scale
      c.style.transform = `translateX(${Math.min(Math.max(x, 60), board.width - 60)}px) translateX(-50%)`
    }
  })
  return (
    <div class={'axis' + (bottom ? ' bottom' : '')} data-axis aria-label={t('axis')} role="img">
      <div class="axis-plot"><div ref={host} />{!bottom && <div ref={chip} class="chip num" hidden />}</div>
    </div>
  )
}

/** Phases as pieces of a band, marks as points on it, each with its text. */
function Strip({ board, box, pick }: { board: Board; box: Box; pick: (m: Mark | null) => void }) {
  const [, again] = useState(0)
  const host = useRef<HTMLDivElement>(null)
  useEffect(() => board.onShape(() => again((n) => n + 1)), [board])
  const whole = steady(board.doc.phases, board.bounds)
  // What is of the whole window is no point on it: it stands below the head and in the list.
  const marks = board.doc.marks.filter((m) => m.kind !== 'phase' && m.kind !== 'step' && !(m.kind === 'note' && m.to !== null && m.to - m.t >= 0.9 * length(whole))).sort((a, b) => a.t - b.t)
  const phases = useMemo(() => shown(board.doc.phases), [board.doc.phases])
  const many = phases.filter((p) => p.name === 'steady').length > 1
  useHand(board, [box, marks.length, phases], (what) => {
    const el = host.current
    if (!el || !box || !(what.has('view') || what.has('shape') || what.has('data'))) return
    const w = board.window
    const scale = board.width / length(w)
    let before = -Infinity
    for (const child of el.children as unknown as Iterable<HTMLElement>) {
      const from = Number(child.dataset['from'])
      if (child.dataset['to'] !== undefined) {
        const to = child.dataset['to'] === '' ? board.bounds.to : Number(child.dataset['to'])
        const a = Math.max(from, w.from)
        const b = Math.min(to, w.to)
        child.hidden = b <= a
        child.style.transform = `translateX(${(a - w.from) * scale}px)`
        child.style.width = Math.max(0, (b - a) * scale - 1) + 'px'
        // A word that has no room says nothing; it is in the list of marks, and here on hover.
        child.classList.toggle('narrow', (b - a) * scale < wide(child.textContent ?? '') + 8)
      } else {
        child.hidden = from < w.from || from > w.to
        child.classList.toggle('late', from > w.from + length(w) / 2)
        // Marks of one instant stand beside one another.
        const x = Math.max((from - w.from) * scale, child.hidden ? -Infinity : before + 10)
        if (!child.hidden) before = x
        child.style.transform = `translateX(${x}px) translateX(-50%)`
      }
    }
  })
  return (
    <div class="strip">
      <div class="strip-plot" ref={host}>
        {phases.map((p) => (
          <div key={`${p.name}${p.step}${p.from}`} class={'phase ' + p.name} data-from={p.from} data-to={p.to ?? ''} title={known(p.name)}>
            <span class="cut">{many && p.name === 'steady' ? p.step + 1 : known(p.name)}</span>
          </div>
        ))}
        {marks.map((m, i) => (
          <button
            key={`m${i}`} type="button" class="plain mark-at" data-from={m.t} data-text={`${elapsed(m.t, true)}  ${told(m.text, m.said)}`} aria-label={`${elapsed(m.t)} ${told(m.text, m.said)}`}
            onPointerEnter={() => pick(m)} onPointerLeave={() => pick(null)} onFocus={() => pick(m)} onBlur={() => pick(null)}
            onClick={() => { if (m.to !== null && m.to > m.t) board.select({ from: m.t, to: m.to }); else board.point(m.t) }}
          ><i class={'mark ' + m.severity} /></button>
        ))}
      </div>
    </div>
  )
}

/** Behind the plots: lines of the time axis, and a shade over what is not the steady window. */
function Under({ board, box, mark }: { board: Board; box: Box; mark: Mark | null }) {
  const lines = useRef<HTMLDivElement>(null)
  const shades = useRef<HTMLDivElement>(null)
  useHand(board, [box, mark], (what) => {
    if (!box || !lines.current || !shades.current || !(what.has('view') || what.has('shape') || what.has('data'))) return
    const w = board.window
    const scale = board.width / length(w)
    const { at } = ticks(w, board.width)
    pool(lines.current, at.length, make('tick-line')).forEach((d, i) => { d.style.transform = `translateX(${Math.round(((at[i] as Ms) - w.from) * scale)}px)` })
    const list = shown(board.doc.phases).filter((p) => p.name !== 'steady').slice(0, 500).map((p) => ({ from: p.from, to: p.to ?? board.bounds.to, mark: false }))
    if (mark) list.push({ from: mark.t, to: mark.to ?? mark.t, mark: true })
    pool(shades.current, list.length, make('shade')).forEach((d, i) => {
      const p = list[i] as (typeof list)[number]
      const a = Math.max(p.from, w.from)
      const b = Math.min(p.to, w.to)
      d.hidden = b < a
      d.className = 'shade' + (p.mark ? ' marked' : '')
      d.style.transform = `translateX(${(a - w.from) * scale}px)`
      d.style.width = Math.max(p.mark ? 1 : 0, (b - a) * scale) + 'px'
    })
  })
  return <div class="under" aria-hidden="true"><div ref={lines} /><div ref={shades} /></div>
}

function Over({ board, box }: { board: Board; box: Box }) {
  const line = useRef<HTMLDivElement>(null)
  const brush = useRef<HTMLDivElement>(null)
  useHand(board, [box], () => {
    if (!box || !line.current || !brush.current) return
    const w = board.window
    const scale = board.width / length(w)
    const at = board.cursor
    line.current.hidden = at === null || at < w.from || at > w.to
    if (at !== null) line.current.style.transform = `translateX(${Math.round((at - w.from) * scale)}px)`
    const s = board.selection
    const a = s ? Math.max(s.from, w.from) : 0
    const b = s ? Math.min(s.to, w.to) : 0
    brush.current.hidden = !s || b <= a
    if (s) {
      brush.current.style.transform = `translateX(${(a - w.from) * scale}px)`
      brush.current.style.width = (b - a) * scale + 'px'
    }
  })
  return <div class="over" aria-hidden="true"><div ref={brush} class="brush" hidden /><div ref={line} class="cursor" hidden /></div>
}

/** Pointer and wheel over the stage. Returns what takes it all back. */
function pointers(el: HTMLElement, board: Board, box: { left: number; width: number }): () => void {
  const timeAt = (clientX: number) => {
    const x = clientX - el.getBoundingClientRect().left - box.left
    const w = board.window
    return w.from + (x / box.width) * length(w)
  }
  const inPlot = (e: MouseEvent) => {
    const x = e.clientX - el.getBoundingClientRect().left
    const target = e.target as Element
    if (x < box.left - 2 || x > box.left + box.width + 2) return false
    return !target.closest('button, a, input, table, .lane-grip, .lane-missing') && (target.closest('.lane-plot, [data-axis], .strip') !== null)
  }
  let way: 'brush' | 'pan' | null = null
  let start = 0
  let startX = 0
  let startWindow = board.window
  const fingers = new Map<number, number>()

  const down = (e: PointerEvent) => {
    if (e.pointerType === 'touch' && inPlot(e)) fingers.set(e.pointerId, e.clientX)
    if ((e.button !== 0 && e.button !== 1) || !inPlot(e)) return
    if (fingers.size > 1) { way = null; board.select(null); return }
    way = e.shiftKey || e.button === 1 || (e.target as Element).closest('[data-axis]') ? 'pan' : 'brush'
    start = timeAt(e.clientX)
    startX = e.clientX
    startWindow = board.window
    el.setPointerCapture(e.pointerId)
    if (e.pointerType !== 'touch') e.preventDefault()
    ;(document.activeElement as HTMLElement | null)?.blur?.()
  }
  const move = (e: PointerEvent) => {
    if (fingers.size > 1 && fingers.has(e.pointerId)) {
      const [a, b] = [...fingers.entries()] as [[number, number], [number, number]]
      const was = Math.abs(a[1] - b[1])
      fingers.set(e.pointerId, e.clientX)
      const [c, d] = [...fingers.values()] as [number, number]
      const is = Math.abs(c - d)
      if (was > 8 && is > 8) board.zoomAt(timeAt((c + d) / 2), was / is)
      return
    }
    if (way === 'pan') {
      const by = ((startX - e.clientX) / box.width) * length(startWindow)
      board.look({ from: startWindow.from + by, to: startWindow.to + by })
      return
    }
    const at = timeAt(e.clientX)
    if (way === 'brush' && Math.abs(e.clientX - startX) > 3) board.select(between(start, at), false)
    if (way !== null || inPlot(e)) board.point(Math.min(Math.max(at, board.window.from), board.window.to))
    else if (e.pointerType !== 'touch') board.point(null)
  }
  const up = (e: PointerEvent) => {
    fingers.delete(e.pointerId)
    if (way === 'brush') {
      if (Math.abs(e.clientX - startX) > 3) board.select(between(start, timeAt(e.clientX)))
      else if (board.selection) board.select(null)
    }
    way = null
  }
  const leave = () => { if (way === null) board.point(null) }
  const wheel = (e: WheelEvent) => {
    if (!inPlot(e)) return
    if (e.ctrlKey || e.metaKey || e.altKey) {
      e.preventDefault()
      board.zoomAt(timeAt(e.clientX), Math.exp(Math.min(Math.max(e.deltaY, -120), 120) * 0.0025))
    } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault()
      board.panBy((e.deltaX || e.deltaY) / box.width)
    }
  }
  const twice = (e: MouseEvent) => {
    if (!inPlot(e)) return
    const s = board.selection
    const at = timeAt(e.clientX)
    if (s && at >= s.from && at <= s.to) board.look(s)
    else board.whole()
  }
  const list: [string, (e: never) => void, AddEventListenerOptions?][] = [
    ['pointerdown', down], ['pointermove', move], ['pointerup', up], ['pointercancel', up], ['pointerleave', leave], ['wheel', wheel, { passive: false }], ['dblclick', twice],
  ]
  for (const [name, f, o] of list) el.addEventListener(name, f as EventListener, o)
  return () => { for (const [name, f] of list) el.removeEventListener(name, f as EventListener) }
}
