// What a probe measured and what was fitted to it: points with their intervals, the fits in
// words, each with its uncertainty.

import type { ProbeDoc } from '../api'
import type { PageProps } from '../app'
import { digits, figure, type Figure, plain } from '../format'
import { words } from '../i18n'
import { told } from '../i18n/told'
import { setQuery, usePlace } from '../route'
import { Empty, Num, Switch } from '../ui'
import { curveOf } from './fit'
import { Chart, type ChartSeries } from './parts/chart'
import { PartOfRun } from './parts/part-of-run'

const t = words(
  {
    title: 'Probe', fits: 'What was fitted', fit: 'Figure', value: 'Value', interval: '95 % interval', says: 'What it says', no: 'no clear answer', measured: 'measured', line: 'fit', none: 'This run is no probe. A probe isolates one part of the stack:',
    scale: 'Scale', log: 'log', linear: 'linear', points: '{y} against {x}',
  },
  {
    title: '探针', fits: '拟合结果', fit: '量', value: '值', interval: '95 % 区间', says: '说明', no: '没有明确结论', measured: '实测', line: '拟合', none: '此运行不是探针。探针只针对系统的一个部分：',
    scale: '刻度', log: '对数', linear: '线性', points: '{y} 随 {x} 变化',
  },
)

/** A fitted figure: units that the panel scales, and others as the probe names them, as ms/user. */
function fitted(v: number | null, unit: string): Figure {
  if (v === null || ['', 'ms', 's', 'bytes', '%', 'tokens', 'users', 'streams', 'tokens/s', '1/s'].includes(unit)) return figure(v, unit)
  return { text: digits(v), unit: `\u2009${told(unit)}` }
}

/** The fits of a probe as a section. */
export function ProbeFits({ probe }: { probe: ProbeDoc }) {
  const { query } = usePlace()
  const log = query.get('px') === 'log'
  const names = [...new Set(probe.points.map(p => p.series))]
  const series: ChartSeries[] = names.map((name, i) => ({
    name: told(name) || t('measured'), i, line: names.length > 1,
    points: probe.points.filter(p => p.series === name).sort((a, b) => a.x - b.x).map(p => ({ x: p.x, y: p.y, lo: p.lo, hi: p.hi, note: `n ${p.n}` })),
  }))
  const drawn = curveOf(probe)
  if (drawn.curve.length > 1) series.push({ name: t('line'), i: names.length, line: true, dashed: true, bare: true, points: drawn.curve })
  return (
    <section class="section" aria-label={t('title')}>
      <h2>{probe.probe}</h2>
      <p>{told(probe.question)}</p>
      {probe.points.length > 0 && (
        <>
          <div class="row no-print"><Switch label={t('scale')} value={log ? 'log' : 'linear'} options={[['linear', t('linear')], ['log', t('log')]]} onChange={v => setQuery({ px: v === 'log' ? 'log' : null })} /></div>
          <Chart
            title={t('points', { x: told(probe.x.name), y: told(probe.y.name) })} series={series} height={320}
            x={{ name: told(probe.x.name), log, format: v => figure(v, probe.x.unit) }} y={{ name: told(probe.y.name), log, format: v => figure(v, probe.y.unit) }}
            lines={drawn.marks.map(m => ({ at: m.at, text: `${told(m.name)} ${plain(figure(m.at, (m.axis === 'x' ? probe.x : probe.y).unit))}`, axis: m.axis }))}
          />
        </>
      )}
      <h3>{t('fits')}</h3>
      <div class="scroll-x" tabIndex={0}>
        <table class="table" aria-label={t('fits')}>
          <thead><tr><th scope="col">{t('fit')}</th><th scope="col" class="num">{t('value')}</th><th scope="col" class="num">{t('interval')}</th><th scope="col">{t('says')}</th></tr></thead>
          <tbody>
            {probe.fits.map(f => (
              <tr key={f.name}>
                <th scope="row">{told(f.name)}</th>
                <td class="num"><Num f={fitted(f.value, f.unit)} /></td>
                <td class="num">{f.lo !== null && f.hi !== null ? <><Num f={fitted(f.lo, f.unit)} /> – <Num f={fitted(f.hi, f.unit)} /></> : '–'}</td>
                <td>{!f.ok && <span class="is-note">{t('no')}: </span>}{told(f.text)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {probe.notes.map(n => <p key={n} class="remark">{told(n)}</p>)}
    </section>
  )
}

export default function ProbePage({ path }: PageProps) {
  return <PartOfRun id={path[0] ?? ''} of={doc => (doc.probe ? <ProbeFits probe={doc.probe} /> : <Empty text={t('none')} type="plimsoll run --workload kv/capacity --url http://127.0.0.1:8000" />)} />
}
