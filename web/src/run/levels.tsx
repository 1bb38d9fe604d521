// The limits, and the workloads: a row for the run and one for each workload, with what its
// limits ask and what came.

import { useEffect, useState } from 'preact/hooks'
import type { Judged, Levels as Slo } from '../api'
import { brief, count, duration, figure, plain, share } from '../format'
import { Num } from '../ui'
import type { Board } from './board'
import { whose } from './missed'
import { t } from './words'

const text = (v: number) => brief(duration(v))

function LimitList({ limits }: { limits: Judged[] }) {
  if (limits.length === 0) return <span class="muted">–</span>
  return (
    <ul class="levels-limits">
      {limits.map((l, i) => {
        const who = whose(l)
        const name = `${l.metric} ${l.stat}${l.turn ? ' · ' + t(l.turn === 'first' ? 'firstTurns' : 'laterTurns') : ''}`
        return (
          <li key={i} class={l.met === false ? 'is-fail' : ''} data-limit={`${l.workload ?? ''} ${l.metric} ${l.stat} ${l.turn ?? ''}`.trim()} title={who || undefined}>
            <span>{name}</span> {l.value === null && l.met === false ? <span title={t('endlessWhy')}>{t('endless')}</span> : <Num f={duration(l.value)} />} <span class="muted">/ {text(l.limit)}</span> {' '}
            <span class={l.met === null ? 'muted' : ''}>{t(l.absent ? 'absent' : l.met === null ? 'unmeasured' : l.met ? 'met' : 'missed')}</span>
          </li>
        )
      })}
    </ul>
  )
}

/** Nothing where there is one workload and no limit. */
export function Levels({ board }: { board: Board }) {
  const [, again] = useState(0)
  useEffect(() => board.onHead(() => again((n) => n + 1)), [board])
  const f = board.figures
  const names = f ? board.doc.workloads.filter((w) => f.workloads[w]) : []
  if (!f || (board.doc.slo.length === 0 && names.length < 2)) return null
  const good = (o: { goodput_rps: number | null; attainment: number | null } | null) => (
    <td class="num"><Num f={figure(o?.goodput_rps, 'requests', true)} />{typeof o?.attainment === 'number' && <span class="muted"> · {plain(share(o.attainment))}</span>}</td>
  )
  const row = (o: Slo | null) => <>{good(o)}<td><LimitList limits={o?.limits ?? []} /></td></>
  return (
    <section class="levels" aria-label={t('workloadRows')}>
      <div class="scroll-x" tabIndex={0}>
        <table class="table" aria-label={t('workloadRows')}>
          <thead>
            <tr>
              <th scope="col">{t('workload')}</th><th scope="col" class="num">{t('requests')}</th><th scope="col" class="num">{t('hFailures')}</th>
              <th scope="col" class="num">ttft p95</th><th scope="col" class="num">tpot p95</th><th scope="col" class="num">{t('hOutput')}</th>
              <th scope="col" class="num">{t('hGoodput')}</th><th scope="col">{t('limits')}</th>
            </tr>
          </thead>
          <tbody>
            <tr data-workload="">
              <th scope="row">{t('all')}</th>
              <td class="num">{plain(count(f.requests.scheduled))}</td>
              <td class={'num' + (f.requests.error > 0 ? ' is-fail' : '')}>{plain(count(f.requests.error))}</td>
              <td class="num"><Num f={duration(f.latency_ms.ttft?.p95)} /></td><td class="num"><Num f={duration(f.latency_ms.tpot?.p95)} /></td>
              <td class="num"><Num f={figure(f.tokens.output_per_s, 'tokens', true)} /></td>
              {row({ met: null, goodput_rps: f.goodput_rps, attainment: f.attainment, limits: f.slo.filter((l) => !l.workload) })}
            </tr>
            {names.map((name) => {
              const w = f.workloads[name]!
              return (
                <tr key={name} data-workload={name}>
                  <th scope="row"><i class={`swatch w${board.doc.workloads.indexOf(name) % 8}`} aria-hidden="true" /> {name}</th>
                  <td class="num">{plain(count(w.requests))}</td>
                  <td class={'num' + (w.errors > 0 ? ' is-fail' : '')}>{plain(count(w.errors))}</td>
                  <td class="num"><Num f={duration(w.ttft_p95_ms)} /></td><td class="num"><Num f={duration(w.tpot_p95_ms)} /></td>
                  <td class="num"><Num f={figure(w.output_per_s, 'tokens', true)} /></td>
                  {row(w.slo?.own ? w.slo : w.slo && { ...w.slo, limits: [] })}
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
    </section>
  )
}
