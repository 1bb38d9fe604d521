// A chart of curves and points: throughput against latency, predictions, fits. The figures are
// also a table, for those who cannot see it and for copying.

import { useState } from 'preact/hooks'
import { brief, type Figure, plain } from '../../format'
import { words } from '../../i18n'
import { Num } from '../../ui'
import { extent, linear, logarithmic, type Scale, ticks } from '../scale'
import './chart.css'
import { Key, Mark } from './marker'
import { useWidth } from './size'

const t = words(
  { table: 'As a table', chart: 'As a chart', nothing: 'Nothing measured yet', series: 'Curve', hint: 'arrow keys go from point to point' },
  { table: '表格', chart: '图表', nothing: '尚无测量值', series: '曲线', hint: '用方向键逐点查看' },
)

export interface ChartPoint { x: number; y: number | null; lo?: number | null; hi?: number | null; /** what the point is, in the readout */ note?: string }
export interface ChartSeries {
  name: string
  /** Which colour and shape. */
  i: number
  points: ChartPoint[]
  line?: boolean
  dashed?: boolean
  /** Without marks: a fitted or predicted curve. */
  bare?: boolean
}
export interface ChartLine { at: number; text: string; axis: 'x' | 'y'; fail?: boolean }
export interface Axis { name: string; log?: boolean; format: (v: number) => Figure }

const left = 64
const bottom = 40
const top = 12
const right = 16

export function Chart({ title, x, y, series, lines = [], height = 260 }: { title: string; x: Axis; y: Axis; series: ChartSeries[]; lines?: ChartLine[]; height?: number }) {
  const [box, width] = useWidth()
  const [table, setTable] = useState(false)
  const [at, setAt] = useState<{ s: number; p: number } | null>(null)
  const xs = extent(series.flatMap(s => s.points.map(p => p.x)))
  const ys = extent([...series.flatMap(s => s.points.flatMap(p => [p.y, p.lo, p.hi])), ...lines.filter(l => l.axis === 'y').map(l => l.at)])
  const flat: { s: number; p: number }[] = series.flatMap((s, i) => s.points.flatMap((p, j) => (p.y === null ? [] : [{ s: i, p: j }])))
  if (xs === null || ys === null) return <div class="ch" ref={box}><p class="muted ch-none">{t('nothing')}</p></div>

  const sx = scaleOf(x, xs, left, Math.max(width - right, left + 40))
  const sy = scaleOf(y, ys, height - bottom, top)
  const move = (by: number) => {
    const here = flat.findIndex(f => f.s === at?.s && f.p === at.p)
    setAt(flat[here < 0 ? (by > 0 ? 0 : flat.length - 1) : Math.min(Math.max(here + by, 0), flat.length - 1)] ?? null)
  }
  const onKey = (e: KeyboardEvent) => {
    if (e.key === 'ArrowRight' || e.key === 'ArrowDown') move(1)
    else if (e.key === 'ArrowLeft' || e.key === 'ArrowUp') move(-1)
    else if (e.key === 'Escape' && at !== null) setAt(null)
    else return
    e.preventDefault()
    e.stopPropagation()
  }
  const onMove = (e: PointerEvent) => {
    const r = (e.currentTarget as SVGElement).getBoundingClientRect()
    let best: { s: number; p: number } | null = null
    let least = 40 * 40
    for (const f of flat) {
      const p = series[f.s]!.points[f.p]!
      const d = (sx.px(p.x) - (e.clientX - r.left)) ** 2 + (sy.px(p.y!) - (e.clientY - r.top)) ** 2
      if (d < least) [best, least] = [f, d]
    }
    setAt(best)
  }
  const point = at === null ? null : series[at.s]?.points[at.p] ?? null
  const of = at === null ? null : series[at.s] ?? null
  const readout = point === null || of === null || point.y === null ? null
    : `${of.name}${point.note ? ` · ${point.note}` : ''} · ${x.name} ${plain(x.format(point.x))} · ${y.name} ${plain(y.format(point.y))}` +
      (point.lo !== undefined && point.lo !== null && point.hi !== undefined && point.hi !== null ? ` (${plain(y.format(point.lo))} – ${plain(y.format(point.hi))})` : '')

  return (
    <figure class="ch" aria-label={title}>
      <figcaption class="spread ch-head">
        <h3>{title}</h3>
        {series.length > 1 && <ul class="row small ch-keys">{series.map((s, i) => <li key={i} class="row tight"><Key i={s.i} /><span>{s.name}</span></li>)}</ul>}
        <button type="button" class="button small no-print" aria-pressed={table} onClick={() => setTable(!table)}>{table ? t('chart') : t('table')}</button>
      </figcaption>
      {table ? <Values title={title} x={x} y={y} series={series} /> : null}
      <div ref={box} class={'ch-box' + (table ? ' ch-hidden' : '')}>
        {width > 0 && (
          <svg
            width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${title}: ${y.name}, ${x.name}. ${t('hint')}`} tabIndex={0}
            onKeyDown={onKey} onPointerMove={onMove} onPointerLeave={() => setAt(null)} onBlur={() => setAt(null)}
          >
            {ticks(sy, Math.max(Math.round(height / 48), 2)).map(v => (
              <g key={'y' + v}>
                <line class="ch-grid" x1={left} x2={width - right} y1={Math.round(sy.px(v)) + 0.5} y2={Math.round(sy.px(v)) + 0.5} />
                <text class="ch-tick" x={left - 8} y={sy.px(v) + 4} text-anchor="end">{v === 0 ? '0' : brief(y.format(v))}</text>
              </g>
            ))}
            {ticks(sx, Math.max(Math.round(width / 110), 2)).map(v => (
              <g key={'x' + v}>
                <line class="ch-grid" x1={Math.round(sx.px(v)) + 0.5} x2={Math.round(sx.px(v)) + 0.5} y1={height - bottom} y2={height - bottom + 4} />
                <text class="ch-tick" x={sx.px(v)} y={height - bottom + 16} text-anchor="middle">{brief(x.format(v))}</text>
              </g>
            ))}
            <line class="ch-axis" x1={left} x2={width - right} y1={height - bottom + 0.5} y2={height - bottom + 0.5} />
            <text class="ch-name" x={width - right} y={height - 6} text-anchor="end">{x.name}</text>
            {lines.map(l => l.axis === 'y'
              ? <g key={l.text} class={l.fail ? 'ch-fail' : 'ch-mark'}><line class="ch-limit" x1={left} x2={width - right} y1={sy.px(l.at)} y2={sy.px(l.at)} /><text class="ch-note" x={width - right} y={sy.px(l.at) - 4} text-anchor="end">{l.text}</text></g>
              : <g key={l.text} class="ch-mark"><line class="ch-limit" x1={sx.px(l.at)} x2={sx.px(l.at)} y1={top} y2={height - bottom} /><text class="ch-note" x={sx.px(l.at) + 4} y={top + 10}>{l.text}</text></g>)}
            {series.map((s, i) => <Curve key={i} s={s} sx={sx} sy={sy} />)}
            {point !== null && point.y !== null && of !== null && <circle class={`ch-at w${of.i % 8}`} cx={sx.px(point.x)} cy={sy.px(point.y)} r={8} />}
          </svg>
        )}
        <p class="ch-read small" role="status">{readout ?? ' '}</p>
      </div>
    </figure>
  )
}

function scaleOf(a: Axis, [lo, hi]: [number, number], from: number, to: number): Scale {
  if (a.log && hi > 0) {
    const floor = lo > 0 ? lo : hi / 1000
    const room = Math.max((hi / floor) ** 0.05, 1.05)
    return logarithmic(floor / room, hi * room, from, to)
  }
  const low = Math.min(lo, 0)
  const room = (hi - low) * 0.06 || Math.abs(hi) * 0.06 || 1
  return linear(low === 0 ? 0 : low - room, hi + room, from, to)
}

function Curve({ s, sx, sy }: { s: ChartSeries; sx: Scale; sy: Scale }) {
  // A gap in what is known is a gap in the line.
  const runs: string[][] = [[]]
  for (const p of s.points) {
    if (p.y === null) runs.push([])
    else runs[runs.length - 1]!.push(`${sx.px(p.x).toFixed(1)},${sy.px(p.y).toFixed(1)}`)
  }
  return (
    <g class={`w${((s.i % 8) + 8) % 8}`}>
      {s.line && runs.map((r, i) => r.length > 1 && <polyline key={i} class={'ch-line' + (s.dashed ? ' ch-dashed' : '')} points={r.join(' ')} />)}
      {s.bare && runs.map((r, i) => r.length === 1 && <circle key={i} cx={r[0]!.split(',')[0]} cy={r[0]!.split(',')[1]} r={1.5} fill="currentColor" />)}
      {s.points.map((p, i) => typeof p.lo === 'number' && typeof p.hi === 'number' && (
        <path key={i} class="ch-whisker" d={`M${sx.px(p.x)} ${sy.px(p.lo)}V${sy.px(p.hi)}m-3 0h6M${sx.px(p.x) - 3} ${sy.px(p.lo)}h6`} />
      ))}
      {!s.bare && s.points.map((p, i) => p.y !== null && <Mark key={i} i={s.i} x={sx.px(p.x)} y={sy.px(p.y)} r={3.5} />)}
    </g>
  )
}

function Values({ title, x, y, series }: { title: string; x: Axis; y: Axis; series: ChartSeries[] }) {
  const ranges = series.some(s => s.points.some(p => typeof p.lo === 'number'))
  return (
    <div class="scroll-x ch-values" tabIndex={0}>
      <table class="table" aria-label={title}>
        <thead><tr>{series.length > 1 && <th scope="col">{t('series')}</th>}<th scope="col" class="num">{x.name}</th><th scope="col" class="num">{y.name}</th>{ranges && <th scope="col" class="num">95 %</th>}</tr></thead>
        <tbody>
          {series.flatMap((s, i) => s.points.map((p, j) => (
            <tr key={`${i}.${j}`}>
              {series.length > 1 && <td>{s.name}</td>}
              <td class="num"><Num f={x.format(p.x)} /></td>
              <td class="num">{p.y === null ? '–' : <Num f={y.format(p.y)} />}</td>
              {ranges && <td class="num">{typeof p.lo === 'number' && typeof p.hi === 'number' ? <><Num f={y.format(p.lo)} /> – <Num f={y.format(p.hi)} /></> : ''}</td>}
            </tr>
          )))}
        </tbody>
      </table>
    </div>
  )
}
