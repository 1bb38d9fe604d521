// The scatter of requests on a canvas: dots, tiles where there are too many, the box that
// chooses some of them.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { RequestRow } from '../../api'
import { brief, elapsed, type Figure, plain } from '../../format'
import { words } from '../../i18n'
import { alpha, onPaper, palette } from '../../theme'
import { axes, type Box, boxOf, type Dots, type Frame, hit, neighbour, strength } from '../scatter'
import { ticks } from '../scale'
import { stamp } from './marker'
import { useColours, useWidth } from './size'

const t = words(
  {
    label: 'Requests by time and {figure}. Arrow keys go from request to request, Enter opens one, Space sets a corner of a box.',
    tile: '{count} requests, mostly {name}', dot: 'request {n}, {name}, at {at}: {value}', corner: 'corner set; go to the opposite one and press Space', none: 'No request here', status: 'status',
  },
  {
    label: '请求：时间与{figure}。方向键逐个移动，回车打开，空格设定选框的一角。',
    tile: '{count} 个请求，多为 {name}', dot: '请求 {n}，{name}，时间 {at}：{value}', corner: '已设一角；移到对角再按空格', none: '这里没有请求', status: '状态',
  },
)

export interface PlotProps {
  dots: Dots
  from: number
  to: number
  log: boolean
  figure: string
  format: (v: number) => Figure
  /** Colour and shape of a category, and its name in words. */
  look: (c: number) => { colour: string; shape: number; name: string }
  selected: number | null
  box: Box | null
  limit: { at: number; text: string } | null
  onSelect: (n: number) => void
  onBox: (b: Box | null) => void
  describe: (n: number) => RequestRow | null
}

export function Plot(p: PlotProps) {
  const [ref, width] = useWidth()
  const host = useRef<HTMLDivElement | null>(null)
  const here = useCallback((el: HTMLDivElement | null) => { host.current = el; ref(el) }, [ref])
  const dots = useRef<HTMLCanvasElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const colours = useColours()
  const [under, setUnder] = useState<{ x: number; y: number; i: number; kind: 'point' | 'tile' } | null>(null)
  const [drag, setDrag] = useState<{ x0: number; y0: number; x1: number; y1: number } | null>(null)
  const [corner, setCorner] = useState<{ x: number; y: number } | null>(null)
  const [said, setSaid] = useState('')
  const height = host.current?.clientHeight ?? 264
  const frame = frameOf(width, height)
  const a = axes(p.dots, p.from, p.to, frame, p.log)

  // Thousands of dots are drawn when they change; what follows the pointer lies on a canvas above.
  useEffect(() => {
    const g = fit(dots.current, width, height)
    if (g !== null) draw(g, p, a, frame)
  }, [p.dots, p.from, p.to, p.log, p.figure, p.limit?.text, width, height, colours])
  // The printer does not wait for the next frame: what is on paper has its size and colours at once.
  const print = useRef((_wide: number, _high: number) => {})
  print.current = (wide, high) => {
    const f = frameOf(wide, high)
    const scales = axes(p.dots, p.from, p.to, f, p.log)
    const below = fit(dots.current, wide, high, true)
    if (below !== null) draw(below, p, scales, f)
    const above = fit(canvas.current, wide, high, true)
    if (above !== null) mark(above, p, scales, f)
  }
  useEffect(() => onPaper(most => { const el = host.current; if (el !== null) print.current(Math.min(el.clientWidth, most), el.clientHeight) }), [])
  useEffect(() => {
    const g = fit(canvas.current, width, height)
    if (g === null) return
    mark(g, p, a, frame)
    if (drag !== null) rectangle(g, Math.min(drag.x0, drag.x1), Math.min(drag.y0, drag.y1), Math.abs(drag.x1 - drag.x0), Math.abs(drag.y1 - drag.y0))
  }, [p.dots, p.from, p.to, p.log, p.figure, p.selected, p.box, width, height, colours, drag])

  const place = (e: PointerEvent) => {
    const r = canvas.current!.getBoundingClientRect()
    return { x: e.clientX - r.left, y: e.clientY - r.top }
  }
  const onMove = (e: PointerEvent) => {
    const { x, y } = place(e)
    if (drag !== null) { setDrag({ ...drag, x1: x, y1: y }); return }
    const h = hit(p.dots, a, x, y)
    setUnder(h === null ? null : { x, y, ...h })
  }
  const onDown = (e: PointerEvent) => {
    if (e.button !== 0 || e.pointerType === 'touch') return
    const { x, y } = place(e)
    setDrag({ x0: x, y0: y, x1: x, y1: y })
    canvas.current!.setPointerCapture(e.pointerId)
    setUnder(null)
  }
  const onUp = (e: PointerEvent) => {
    const { x, y } = place(e)
    // A finger taps without a drag; anything else began elsewhere.
    if (drag === null && e.pointerType !== 'touch') return
    const box = drag === null ? null : boxOf(a, frame, drag.x0, drag.y0, x, y)
    setDrag(null)
    if (box !== null) { p.onBox(box); return }
    const h = hit(p.dots, a, x, y)
    if (h?.kind === 'point') p.onSelect(p.dots.points.n[h.i]!)
    else if (h?.kind === 'tile' && p.dots.tiles) {
      const s = p.dots.tiles
      p.onBox({ x0: s.x0[h.i]!, x1: s.x1[h.i]!, y0: s.y0[h.i]!, y1: s.y1[h.i]! })
    } else p.onBox(null)
  }
  const tell = (i: number) => setSaid(t('dot', { n: p.dots.points.n[i]!, name: p.look(p.dots.points.c[i]!).name, at: elapsed(p.dots.points.x[i]!, true), value: plain(p.format(p.dots.points.y[i]!)) }))
  const onKey = (e: KeyboardEvent) => {
    const here = under?.kind === 'point' ? under.i : null
    if (e.key === 'ArrowRight' || e.key === 'ArrowLeft') {
      const i = neighbour(p.dots, here, e.key === 'ArrowRight' ? 1 : -1) ?? here
      if (i === null) { setSaid(t('none')); return }
      setUnder({ kind: 'point', i, x: a.x.px(p.dots.points.x[i]!), y: a.y.px(p.dots.points.y[i]!) })
      tell(i)
    } else if (e.key === 'Enter' && here !== null) p.onSelect(p.dots.points.n[here]!)
    else if (e.key === ' ' && here !== null) {
      const at = { x: p.dots.points.x[here]!, y: p.dots.points.y[here]! }
      if (corner === null) { setCorner(at); setSaid(t('corner')) } else {
        setCorner(null)
        p.onBox({ x0: Math.min(corner.x, at.x), x1: Math.max(corner.x, at.x), y0: Math.min(corner.y, at.y), y1: Math.max(corner.y, at.y) })
      }
    } else if (e.key === 'Escape' && (p.box !== null || corner !== null)) { setCorner(null); p.onBox(null) } else return
    e.preventDefault()
    e.stopPropagation()
  }
  return (
    <div
      class="rq-plot" ref={here} role="application" tabIndex={0} aria-label={t('label', { figure: p.figure })}
      onKeyDown={onKey} onBlur={() => setUnder(null)}
    >
      <canvas ref={dots} />
      <canvas ref={canvas} onPointerMove={onMove} onPointerDown={onDown} onPointerUp={onUp} onPointerLeave={() => setUnder(null)} onPointerCancel={() => setDrag(null)} />
      {under !== null && drag === null && <Hover under={under} p={p} width={width} />}
      <span class="visually-hidden" role="status">{said}</span>
    </div>
  )
}

function Hover({ under, p, width }: { under: { x: number; y: number; i: number; kind: 'point' | 'tile' }; p: PlotProps; width: number }) {
  const flip = under.x > width - 260
  const style = flip ? { right: `${width - under.x + 12}px`, top: `${Math.max(under.y - 12, 0)}px` } : { left: `${under.x + 12}px`, top: `${Math.max(under.y - 12, 0)}px` }
  if (under.kind === 'tile') {
    const s = p.dots.tiles
    if (s === null || s.count[under.i] === undefined) return null
    return (
      <div class="rq-hover" style={style}>
        <strong>{t('tile', { count: s.count[under.i]!, name: p.look(s.c[under.i]!).name })}</strong>
        <div class="num">{plain(p.format(s.y0[under.i]!))} – {plain(p.format(s.y1[under.i]!))}</div>
        <div class="muted num">{elapsed(s.x0[under.i], true)} – {elapsed(s.x1[under.i], true)}</div>
      </div>
    )
  }
  const n = p.dots.points.n[under.i]
  if (n === undefined) return null
  const row = p.describe(n)
  return (
    <div class="rq-hover" style={style}>
      <strong>#{n} · {p.look(p.dots.points.c[under.i]!).name}</strong>
      <dl>
        <dt class="muted">{p.figure}</dt><dd class="num">{plain(p.format(p.dots.points.y[under.i]!))}</dd>
        <dt class="muted">t</dt><dd class="num">{elapsed(p.dots.points.x[under.i], true)}</dd>
        {row && <><dt class="muted">{row.workload === p.look(p.dots.points.c[under.i]!).name ? t('status') : row.workload}</dt><dd>{row.error_kind || row.status}</dd></>}
      </dl>
    </div>
  )
}

/** The plot inside a canvas of a size. */
const frameOf = (width: number, height: number): Frame => ({ left: 64, top: 8, right: Math.max(width - 8, 80), bottom: height - 24 })

/**
 * Sizes a canvas and gives it empty, or null where there is nothing to draw on. Anew for the
 * printer: there, what is rubbed out of one canvas is rubbed out of the one below it too.
 */
function fit(c: HTMLCanvasElement | null, width: number, height: number, anew = false): CanvasRenderingContext2D | null {
  const g = c?.getContext('2d') ?? null
  if (c === null || g === null || width === 0) return null
  const ratio = devicePixelRatio || 1
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)]
  if (anew || c.width !== w || c.height !== h) {
    c.width = w
    c.height = h
    c.style.width = width + 'px'
    c.style.height = height + 'px'
  }
  g.setTransform(ratio, 0, 0, ratio, 0, 0)
  if (!anew) g.clearRect(0, 0, width, height)
  return g
}

function draw(g: CanvasRenderingContext2D, p: PlotProps, a: ReturnType<typeof axes>, f: Frame) {
  const colour = palette()
  const font = getComputedStyle(g.canvas).fontFamily
  g.font = `11px ${font}`
  g.fillStyle = colour.muted
  g.strokeStyle = colour.line
  g.lineWidth = 1
  g.textBaseline = 'middle'
  g.textAlign = 'right'
  for (const v of ticks(a.y, Math.max(Math.round((f.bottom - f.top) / 40), 2))) {
    const y = Math.round(a.y.px(v)) + 0.5
    line(g, f.left, y, f.right, y)
    g.fillText(v === 0 ? '0' : brief(p.format(v)), f.left - 8, y)
  }
  g.textAlign = 'center'
  g.textBaseline = 'top'
  for (const v of timeTicks(p.from, p.to, Math.max(Math.round((f.right - f.left) / 96), 2))) {
    const x = Math.round(a.x.px(v)) + 0.5
    line(g, x, f.bottom, x, f.bottom + 4)
    g.fillText(elapsed(v, p.to - p.from < 5000), Math.min(x, f.right - 12), f.bottom + 8)
  }
  g.save()
  g.beginPath()
  g.rect(f.left, f.top - 4, f.right - f.left + 4, f.bottom - f.top + 8)
  g.clip()
  const s = p.dots.tiles
  if (s !== null) {
    const most = s.count.reduce((m, c) => Math.max(m, c), 0)
    for (let i = 0; i < s.count.length; i++) {
      g.fillStyle = alpha(p.look(s.c[i]!).colour, strength(s.count[i]!, most))
      const x = a.x.px(s.x0[i]!)
      const y = a.y.px(s.y1[i]!)
      g.fillRect(x, y, Math.max(a.x.px(s.x1[i]!) - x - 0.5, 1), Math.max(a.y.px(s.y0[i]!) - y - 0.5, 1))
    }
  }
  // A picture per category is made once and laid down for each of its dots.
  const r = s !== null ? 1.2 : p.dots.points.n.length > 2500 ? 2 : 3
  const ratio = devicePixelRatio || 1
  const half = Math.ceil(r * 1.3) + 1
  const pictures = new Map<number, HTMLCanvasElement>()
  g.globalAlpha = s === null ? 0.8 : 1
  for (let i = 0; i < p.dots.points.n.length; i++) {
    const c = p.dots.points.c[i]!
    let picture = pictures.get(c)
    if (picture === undefined) {
      const look = p.look(c)
      pictures.set(c, (picture = stamp(look.shape, look.colour, r, half, ratio)))
    }
    g.drawImage(picture, a.x.px(p.dots.points.x[i]!) - half, a.y.px(p.dots.points.y[i]!) - half, 2 * half, 2 * half)
  }
  g.globalAlpha = 1
  if (p.limit !== null) {
    // As in the lanes; one that lies outside of what is shown is told of, and not drawn at the edge.
    const beyond = p.limit.at > a.y.hi ? ' \u2191' : p.limit.at < a.y.lo ? ' \u2193' : ''
    const y = beyond === '' ? Math.round(a.y.px(p.limit.at)) + 0.5 : p.limit.at > a.y.hi ? f.top + 16 : f.bottom - 2
    const text = p.limit.text + beyond
    g.lineWidth = 1
    g.strokeStyle = colour.muted
    g.setLineDash([5, 4])
    if (beyond === '') line(g, f.left, y, f.right, y)
    g.setLineDash([])
    g.fillStyle = colour.muted
    g.textAlign = 'right'
    g.textBaseline = 'bottom'
    g.strokeStyle = colour.background
    g.lineWidth = 4
    g.lineJoin = 'round'
    g.strokeText(text, f.right - 4, y - 2)
    g.fillText(text, f.right - 4, y - 2)
  }
  g.restore()
}

/** What is chosen: the ring around a request, the box around some. */
function mark(g: CanvasRenderingContext2D, p: PlotProps, a: ReturnType<typeof axes>, f: Frame) {
  const colour = palette()
  g.save()
  g.beginPath()
  g.rect(f.left - 8, f.top - 8, f.right - f.left + 16, f.bottom - f.top + 16)
  g.clip()
  if (p.selected !== null) {
    const i = p.dots.points.n.indexOf(p.selected)
    if (i >= 0) {
      g.beginPath()
      g.arc(a.x.px(p.dots.points.x[i]!), a.y.px(p.dots.points.y[i]!), 8, 0, 2 * Math.PI)
      g.strokeStyle = colour.text
      g.lineWidth = 2
      g.stroke()
    }
  }
  if (p.box !== null) {
    const y1 = p.box.y0 > 0 || a.y.lo <= 0 ? a.y.px(p.box.y0) : f.bottom
    rectangle(g, a.x.px(p.box.x0), a.y.px(p.box.y1), a.x.px(p.box.x1) - a.x.px(p.box.x0), y1 - a.y.px(p.box.y1))
  }
  g.restore()
}

function line(g: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number) {
  g.beginPath()
  g.moveTo(x0, y0)
  g.lineTo(x1, y1)
  g.stroke()
}

function rectangle(g: CanvasRenderingContext2D, x: number, y: number, w: number, h: number) {
  const c = palette().accent
  g.fillStyle = alpha(c, 0.12)
  g.fillRect(x, y, w, h)
  g.strokeStyle = c
  g.lineWidth = 1
  g.strokeRect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.round(w), Math.round(h))
}

/** Ticks at whole seconds, minutes or hours. */
function timeTicks(from: number, to: number, n: number): number[] {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 21600e3, 43200e3, 86400e3]
  const step = steps.find(s => (to - from) / s <= n) ?? 86400e3
  const out: number[] = []
  for (let v = Math.ceil(from / step) * step; v <= to && out.length < 100; v += step) out.push(v)
  return out
}
