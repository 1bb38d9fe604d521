// The steps of runs as curves: what more load costs the users, and where a limit is crossed.

import type { RunDoc } from '../api'
import type { PageProps } from '../app'
import { brief, count, duration, figure, type Figure, plain, share } from '../format'
import { words } from '../i18n'
import { setQuery, usePlace } from '../route'
import { Empty, Num, Switch } from '../ui'
import { Chart, type ChartSeries } from './parts/chart'
import { PartOfRun } from './parts/part-of-run'
import { loadOf, type Step, stepsOf } from './step-figures'

const t = words(
  {
    title: 'Steps', curve: '{figure} {stat} against load', x: 'Across', y: 'Up', stat: 'Percentile', load: 'load', output: 'output tokens/s', completed: 'completed requests/s', users: 'users', oneUser: '1 user', rate: 'requests/s', none: 'This run has one level of load. Several make a curve:',
    step: 'Step', requests: 'Requests', failures: 'Failures', goodput: 'Goodput', slo: 'SLO', met: 'met', missed: 'missed', unmeasured: 'not measured', cut: 'cut short', scale: 'Scale', log: 'log', linear: 'linear',
  },
  {
    title: '负载阶梯', curve: '{figure} {stat} 随负载变化', x: '横轴', y: '纵轴', stat: '百分位', load: '负载', output: '输出 token/s', completed: '完成请求/s', users: '用户', oneUser: '1 用户', rate: '请求/s', none: '此运行只有一级负载。多级负载可绘成曲线：',
    step: '步', requests: '请求', failures: '失败', goodput: '有效吞吐', slo: 'SLO', met: '达标', missed: '未达标', unmeasured: '未测得', cut: '提前结束', scale: '刻度', log: '对数', linear: '线性',
  },
)

const figures = ['ttft', 'tpot', 'itl', 'e2e', 'ttft_from_schedule', 'e2e_from_schedule'] as const
const stats = ['p50', 'p95', 'p99'] as const

const loadText = (s: Step): string => {
  const l = loadOf(s)
  return l === null ? '–' : l.n === 1 && l.by === 'users' ? t('oneUser') : `${plain(count(l.n))} ${t(l.by)}`
}

/** Curves of one run, or of several over each other. Choices stand in the query. */
export function StepCurves({ docs }: { docs: RunDoc[] }) {
  const { query } = usePlace()
  const pick = <T extends string>(key: string, of: readonly T[], or: T): T => (of.includes(query.get(key) as T) ? (query.get(key) as T) : or)
  const fig = pick('sy', figures, 'ttft')
  const stat = pick('ss', stats, 'p95')
  const x = pick('sx', ['load', 'output', 'completed'] as const, 'load')
  const log = query.get('sl') !== 'linear'
  const runs = docs.map(doc => ({ doc, steps: stepsOf(doc.summary) }))
  const across = (s: Step): number | null => (x === 'load' ? loadOf(s)?.n ?? null : x === 'output' ? s.outputPerS : s.completedPerS)
  const by = runs.flatMap(r => r.steps.map(s => loadOf(s)?.by)).find(v => v !== undefined) ?? 'users'
  const series: ChartSeries[] = runs.map(({ doc, steps }, i) => ({
    name: doc.run.name || doc.run.id, i, line: true,
    points: steps.flatMap(s => {
      const at = across(s)
      if (at === null) return []
      const d = s.latency(fig)
      const ci = d.ci(stat)
      return [{ x: at, y: d[stat], lo: ci?.[0] ?? null, hi: ci?.[1] ?? null, note: loadText(s) }]
    }),
  }))
  const limits = new Set(runs.flatMap(({ doc }) => doc.slo.filter(l => !l.workload && l.metric === fig && l.stat === stat).map(l => l.limit)))
  // Red is for a limit that a step has missed.
  const missed = (at: number) => series.some(s => s.points.some(p => p.y !== null && p.y > at))
  const name = x === 'load' ? t(by) : t(x)
  return (
    <div class="section">
      <div class="row no-print">
        <Choice label={t('y')} value={fig} options={figures} onChange={v => setQuery({ sy: v === 'ttft' ? null : v })} />
        <Switch label={t('stat')} value={stat} options={stats.map(s => [s, s] as const)} onChange={v => setQuery({ ss: v === 'p95' ? null : v })} />
        <Switch label={t('x')} value={x} options={[['load', t('load')], ['output', t('output')], ['completed', t('completed')]]} onChange={v => setQuery({ sx: v === 'load' ? null : v })} />
        <Switch label={t('scale')} value={log ? 'log' : 'linear'} options={[['log', t('log')], ['linear', t('linear')]]} onChange={v => setQuery({ sl: v === 'log' ? null : v })} />
      </div>
      <Chart
        title={t('curve', { figure: fig, stat })} series={series} height={320}
        x={{ name, log: log && x === 'load', format: v => count(Number(v.toPrecision(4))) }}
        y={{ name: `${fig} ${stat}`, log, format: v => duration(v) }}
        lines={[...limits].map(at => ({ at, text: `SLO ${brief(duration(at))}`, axis: 'y' as const, fail: missed(at) }))}
      />
    </div>
  )
}

function Choice<T extends string>({ label, value, options, onChange }: { label: string; value: T; options: readonly T[]; onChange: (v: T) => void }) {
  return (
    <label class="row tight small muted">{label}
      <select class="field" value={value} onChange={e => onChange(e.currentTarget.value as T)}>{options.map(o => <option key={o} value={o}>{o}</option>)}</select>
    </label>
  )
}

/** The steps of one run as a section: curves, and a table of all of them. */
export function Steps({ doc }: { doc: RunDoc }) {
  const steps = stepsOf(doc.summary)
  if (steps.length < 2) return <Empty text={t('none')} type="plimsoll run --url http://127.0.0.1:8000 --users 1,2,4,8,16 --duration 30s" />
  const dur = (v: number | null): Figure => duration(v)
  return (
    <section class="section" aria-label={t('title')}>
      <h2>{t('title')}</h2>
      <StepCurves docs={[doc]} />
      <div class="scroll-x" tabIndex={0}>
        <table class="table" aria-label={t('title')}>
          <thead>
            <tr>
              <th scope="col">{t('step')}</th><th scope="col" class="num">{t('requests')}</th><th scope="col" class="num">{t('failures')}</th><th scope="col" class="num">{t('output')}</th>
              <th scope="col" class="num">ttft p50</th><th scope="col" class="num">ttft p95</th><th scope="col" class="num">tpot p95</th><th scope="col" class="num">e2e p95</th><th scope="col" class="num">{t('goodput')}</th><th scope="col">{t('slo')}</th>
            </tr>
          </thead>
          <tbody>
            {steps.map((s, i) => {
              return (
                <tr key={i}>
                  <th scope="row">{loadText(s)}{!s.complete && <span class="is-note"> · {t('cut')}</span>}</th>
                  <td class="num">{plain(count(s.scheduled))}</td>
                  <td class={'num' + (s.errors > 0 ? ' is-fail' : '')}>{plain(count(s.errors))}</td>
                  <td class="num"><Num f={figure(s.outputPerS, 'tokens', true)} /></td>
                  <td class="num"><Num f={dur(s.latency('ttft').p50)} /></td><td class="num"><Num f={dur(s.latency('ttft').p95)} /></td>
                  <td class="num"><Num f={dur(s.latency('tpot').p95)} /></td><td class="num"><Num f={dur(s.latency('e2e').p95)} /></td>
                  <td class="num"><Num f={figure(s.goodput, 'requests', true)} />{s.attainment !== null && <span class="muted"> · {plain(share(s.attainment))}</span>}</td>
                  <td class={s.met === false ? 'is-fail' : ''}>{!s.judged ? '–' : t(s.met === null ? 'unmeasured' : s.met ? 'met' : 'missed')}</td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
    </section>
  )
}

export default function StepsPage({ path }: PageProps) {
  return <PartOfRun id={path[0] ?? ''} of={doc => <Steps doc={doc} />} />
}
