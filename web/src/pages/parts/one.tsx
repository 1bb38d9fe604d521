// One request: its facts, where its time went, and what the servers did meanwhile.

import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type One, type RunDoc, type Source } from '../../api'
import { brief, count, duration, elapsed, figure, plain } from '../../format'
import { words } from '../../i18n'
import { Empty, Later, Num, Trouble, useLoad } from '../../ui'
import { told } from '../../i18n/told'
import { sessionOf } from '../figures'
import { ticks, linear } from '../scale'
import { tokenTicks, waterfall } from '../waterfall'
import { namesOf } from '../../run/lanes'
import { t as word } from '../../run/words'
import { useWidth } from './size'

const t = words(
  {
    title: 'Request {n}', close: 'Close', prev: 'Earlier', next: 'Later', loading: 'Reading the request', time: 'Scheduled', user: 'User', session: 'Session, turn', step: 'Step', remote: 'Address',
    status: 'Status', finish: 'Finish', prompt: 'Prompt', cached: 'of it cached', output: 'Output', workload: 'Workload', clock: 'Clock', kernel: 'kernel', userspace: 'user space', flags: 'Flags', message: 'What the server said',
    picture: 'Where the time of request {n} went', retrieval: 'retrieval', wait: 'wait before start', connect: 'connect', upload: 'upload', first: 'sent to first token', queue: 'engine: queue', prefill: 'engine: prefill',
    tokens: 'tokens', tail: 'last token to end', told: 'Dashed: what the engines observed in the mean over the time of this request, of whatever requests, laid before the first token.',
    ticks: 'Ticks are events: {events} with output.', bounded: '{n} of them came with others in one read: their time is the latest it can be (amber).', server: 'The servers during it', signal: 'Signal', mean: 'mean', max: 'max',
    all: 'All {n} signals', few: 'Fewer', noServer: 'No telemetry of the servers at that time.', answer: 'The answer', notKept: 'Answers are kept with --save-text only.', notIn: 'This report holds the times of this request, not its events.', points: 'Clock points', point: 'Point', since: 'since scheduled',
    noEvents: 'No output events are on record yet.', lost: 'The record of this request cannot be read, so its events, message and answer are not shown. What is shown comes from the columns that the panel keeps of all requests.',
  },
  {
    title: '请求 {n}', close: '关闭', prev: '上一个', next: '下一个', loading: '正在读取请求', time: '计划时间', user: '用户', session: '会话，轮次', step: '步', remote: '地址',
    status: '状态', finish: '结束原因', prompt: '提示', cached: '其中命中缓存', output: '输出', workload: '负载', clock: '时钟', kernel: '内核', userspace: '用户态', flags: '标记', message: '服务器的返回',
    picture: '请求 {n} 的时间去向', retrieval: '检索', wait: '开始前等待', connect: '连接', upload: '上传', first: '发送到首 token', queue: '引擎：排队', prefill: '引擎：预填充',
    tokens: 'token', tail: '末 token 到结束', told: '虚线：引擎在此请求期间观测到的平均值（不限此请求），画在首 token 之前。',
    ticks: '刻度为事件：{events} 个带输出。', bounded: '其中 {n} 个与其他事件在同一次读取中到达：其时间为最晚可能值（琥珀色）。', server: '期间的服务器状态', signal: '信号', mean: '平均', max: '最大',
    all: '全部 {n} 个信号', few: '收起', noServer: '当时没有服务器遥测。', answer: '回答', notKept: '仅在使用 --save-text 时保存回答。', notIn: '此报告只含该请求的时间，不含事件。', points: '时间点', point: '时间点', since: '自计划时间起',
    noEvents: '尚无输出事件记录。', lost: '无法读取此请求的记录，因此不显示其事件、消息和回答。所示内容来自面板为所有请求保存的列。',
  },
)

export function OneRequest({ source, doc, n, onClose, onMove, tick }: { source: Source; doc: RunDoc; n: number; onClose: () => void; onMove: ((by: 1 | -1) => void) | null; tick: number }) {
  const one = useLoad(s => source.request(n, s), [source, n, doc.live ? tick : 0])
  const title = t('title', { n })
  return (
    <section class="rq-one" aria-label={title}>
      <div class="spread">
        <h2>{title}</h2>
        <span class="row tight no-print">
          {onMove && <><button type="button" class="button small" onClick={() => onMove(-1)}>{t('prev')}</button><button type="button" class="button small" onClick={() => onMove(1)}>{t('next')}</button></>}
          <button type="button" class="button small" onClick={onClose}>{t('close')}</button>
        </span>
      </div>
      {one.error && <Trouble error={one.error} again={one.again} />}
      {one.value === null ? !one.error && <Later><p class="muted">{t('loading')}</p></Later> : one.value.row.n === n && <Told one={one.value} />}
    </section>
  )
}

/** Why the record of a request cannot be read, as when its part of the run is damaged; nothing when it can. */
export function Lost({ one }: { one: Pick<One, 'lost'> }) {
  return one.lost === null ? null : <div class="trouble" role="status"><strong>{t('lost')}</strong><pre>{told(one.lost)}</pre></div>
}

function Told({ one }: { one: One }) {
  const r = one.row
  const facts: [string, ComponentChildren][] = [
    [t('workload'), r.workload],
    [t('status'), <span class={r.status === 'error' ? 'is-fail' : r.status === 'ok' ? '' : 'is-note'} title={r.status}>{told(r.status)}{r.error_kind && ` · ${r.error_kind}`}{r.http_status !== null && r.http_status !== 200 && ` · HTTP ${r.http_status}`}</span>],
    ['ttft', <Num f={duration(r.ttft_ms)} />], ['tpot', <Num f={duration(r.tpot_ms)} />], ['e2e', <Num f={duration(r.e2e_ms)} />],
    [t('prompt'), <Num f={count(r.prompt_tokens)} />], [t('cached'), <Num f={count(r.cached_tokens)} />], [t('output'), <Num f={count(r.output_tokens)} />],
    [t('finish'), r.finish || '–'], [t('time'), <span class="num">{elapsed(r.t, true)}</span>], [t('user'), r.user], [t('session'), <span title={`session:${r.session}`}>{sessionOf(r)}, {r.turn}</span>], [t('step'), r.step + 1],
    [t('remote'), one.remote || '–'], [t('clock'), one.kernel_times ? t('kernel') : t('userspace')],
  ]
  if (one.flags.length > 0 && !one.flags.includes('not_in_report')) facts.push([t('flags'), one.flags.join(', ')])
  const bounded = one.events.bounded.filter(b => b).length
  const [all, setAll] = useState(false)
  // What a reader asks first; the rest is a click away.
  const telling = one.server.filter(s => telltale.includes(s.signal) && (s.stat === 'value' || s.stat === 'mean' || s.signal === 'preemptions'))
  const first = telling.length > 0 ? telling : one.server.slice(0, 10)
  return (
    <>
      <Lost one={one} />
      <Picture one={one} />
      <p class="small muted">
        {one.flags.includes('not_in_report') ? t('notIn') : one.lost !== null ? '' : one.events.t.length > 0 ? t('ticks', { events: one.events.t.length }) : t('noEvents')}
        {bounded > 0 && ` ${t('bounded', { n: bounded })}`}
        {one.engine && (one.engine.queue_ms !== null || one.engine.prefill_ms !== null) && ' ' + t('told')}
      </p>
      {one.message && <div class="trouble"><strong>{t('message')}</strong><pre>{one.message}</pre></div>}
      <dl class="rq-facts">{facts.map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>
      <h3>{t('server')}</h3>
      {one.server.length === 0 ? <p class="muted">{t('noServer')}</p> : (
        <>
        <table class="table" aria-label={t('server')}>
          <thead><tr><th scope="col">{t('signal')}</th><th scope="col" class="num">{t('mean')}</th><th scope="col" class="num">{t('max')}</th></tr></thead>
          <tbody>{(all ? one.server : first).map(s => <tr key={s.signal + s.stat}><td title={s.signal}>{serverName(s.signal)}{s.stat !== 'value' && <span class="muted"> {told(s.stat)}</span>}</td><td class="num"><Num f={figure(s.mean, s.unit)} /></td><td class="num"><Num f={figure(s.max, s.unit)} /></td></tr>)}</tbody>
        </table>
        {first.length < one.server.length && <span><button type="button" class="button small no-print" aria-expanded={all} onClick={() => setAll(!all)}>{all ? t('few') : t('all', { n: one.server.length })}</button></span>}
        </>
      )}
      <h3>{t('answer')}</h3>
      {one.text === null ? <p class="muted">{one.lost !== null ? '–' : t('notKept')}</p> : <div class="rq-text" tabIndex={0}>{one.text.map((s, i) => <pre key={i}>{s}</pre>)}</div>}
    </>
  )
}

/** A signal by the words of its lane; what no lane shows has its own name. */
function serverName(signal: string): string {
  const n = namesOf(signal)
  return n === null ? signal : n.part === null ? word(n.lane) : `${word(n.lane)} · ${word(n.part)}`
}

/** The signals that most often say why a request took its time. */
const telltale = ['requests_running', 'requests_waiting', 'kv_cache_usage', 'prefix_cache_hit_ratio', 'preemptions', 'queue_time', 'prefill_time', 'decode_time', 'sm_active', 'dram_active', 'gpu_util']

const rowHeight = 24

function Picture({ one }: { one: One }) {
  const [ref, width] = useWidth()
  const w = waterfall(one)
  if (w.bars.length === 0) return <Empty text={t('noEvents')} />
  const label = width < 480 ? 112 : 150
  const x = linear(w.from, w.to, label, Math.max(width - 76, label + 40))
  const height = w.bars.length * rowHeight + 28
  const scheduled = one.points.scheduled ?? w.from
  const said = w.bars.map(b => `${t(b.stretch)} ${plain(duration(b.to - b.from))}`).join(', ')
  const plot = x.px(w.to) - label
  return (
    <div ref={ref}>
      {width > 0 && (
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${t('picture', { n: one.row.n })}: ${said}`}>
          {ticks(linear(0, Math.max(w.to - scheduled, 1e-3), 0, 1), Math.max(Math.round(plot / 72), 2)).map(v => (
            <g key={v}>
              <line class="ch-grid" x1={Math.round(x.px(scheduled + v)) + 0.5} x2={Math.round(x.px(scheduled + v)) + 0.5} y1={0} y2={height - 24} />
              <text class="ch-tick" x={x.px(scheduled + v)} y={height - 8} text-anchor="middle">{v === 0 ? '0' : brief(duration(v))}</text>
            </g>
          ))}
          {w.bars.map((b, i) => {
            const y = i * rowHeight + 4
            const from = x.px(b.from)
            const length = Math.max(x.px(b.to) - from, 1.5)
            return (
              <g key={b.stretch}>
                <text class="wf-label" x={0} y={y + 12}>{t(b.stretch)}</text>
                <rect class={`wf-bar wf-${b.stretch}`} x={from} y={b.stretch === 'tokens' ? y + 12 : y} width={length} height={b.stretch === 'tokens' ? 4 : 16} />
                {b.stretch === 'tokens' && tokenTicks(one, b.from, b.to, Math.floor(length)).map(e => (
                  <line key={e.t} class={'wf-tick' + (e.bounded ? ' wf-bounded' : '')} x1={Math.round(x.px(e.t)) + 0.5} x2={Math.round(x.px(e.t)) + 0.5} y1={y} y2={y + 12}>
                    <title>{plain(duration(e.t - scheduled))}{e.tokens !== null ? ` · ${e.tokens}` : ''}</title>
                  </line>
                ))}
                <text class="wf-value" x={x.px(b.to) + 6} y={y + 12}>{plain(duration(b.to - b.from))}</text>
              </g>
            )
          })}
        </svg>
      )}
      <details class="small">
        <summary class="muted">{t('points')}</summary>
        <table class="table" aria-label={t('points')}>
          <thead><tr><th scope="col">{t('point')}</th><th scope="col" class="num">{t('since')}</th></tr></thead>
          <tbody>{w.instants.map(i => <tr key={i.name}><td title={i.name}>{told(i.name)}</td><td class="num">{i.t === scheduled ? '0' : <Num f={duration(i.t - scheduled)} />}</td></tr>)}</tbody>
        </table>
      </details>
    </div>
  )
}
