// The frame: the rail on the left, and the page that the place names. Pages are loaded when
// they are first gone to.

import { Component, type ComponentChildren, type ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { api, ApiError, type RunRow } from './api'
import { language, onLanguage, words } from './i18n'
import { useKeys } from './keys'
import { go, type Place, usePlace } from './route'
import { Help, Looks } from './shell'
import { onTheme } from './theme'
import { Dialog, Empty, Later, Trouble, saying } from './ui'

const t = words(
  {
    runs: 'Runs', compare: 'Compare', workloads: 'Workloads', scenarios: 'Scenarios', twin: 'Twin', settings: 'Settings',
    live: 'live', recent: 'Recent', pages: 'Pages', menu: 'Menu', close: 'Close',
    help: 'this help', goTo: 'go to {page}', skip: 'Skip to the content', version: 'Plimsoll {version}', unreachable: 'The server does not answer; trying again',
    nowhere: 'There is no page here.', token: 'This panel asks for a token', tokenHow: 'Plimsoll printed it when it started to listen.', enter: 'Enter', tokenName: 'Token', allRuns: 'All runs',
    broken: 'This page has failed: {why}. The others are not affected.',
    valid: 'valid', 'client-bound': 'client-bound', invalid: 'invalid',
  },
  {
    runs: '运行', compare: '对比', workloads: '负载', scenarios: '场景', twin: '孪生', settings: '设置',
    live: '实时', recent: '最近', pages: '页面', menu: '菜单', close: '关闭',
    help: '本帮助', goTo: '前往{page}', skip: '跳到正文', version: 'Plimsoll {version}', unreachable: '服务器没有响应，正在重试',
    nowhere: '这里没有页面。', token: '此面板需要令牌', tokenHow: 'Plimsoll 开始监听时打印了令牌。', enter: '进入', tokenName: '令牌', allRuns: '全部运行',
    broken: '此页面出错：{why}。其他页面不受影响。',
    valid: '有效', 'client-bound': '受限于客户端', invalid: '无效',
  },
)

/** What a page is given: the place's path after the page's own name, and the query. */
export interface PageProps { path: string[]; query: URLSearchParams }
type Page = ComponentType<PageProps>

const files = import.meta.glob<{ default: Page }>('./pages/*.tsx')
const loaded = new Map<string, Page>()

/** Which file shows a place, and what of the path is left for it. */
function routeOf(path: string[]): { page: string; rest: string[] } {
  const [first, id, tab] = path
  if (first === undefined) return { page: 'runs', rest: [] }
  if (first === 'runs' && id !== undefined) return tab === undefined ? { page: 'run', rest: [id] } : { page: tab, rest: [id] }
  return { page: first, rest: path.slice(1) }
}

async function load(page: string): Promise<Page> {
  const known = loaded.get(page)
  if (known) return known
  const file = page === 'run' ? () => import('./run') : files[`./pages/${page}.tsx`]
  if (!file) throw new ApiError(404, t('nowhere'))
  const found = (await file()).default
  loaded.set(page, found)
  return found
}

/** A page that fails takes nothing else with it. */
class Boundary extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  override state = { error: null as Error | null }
  static override getDerivedStateFromError(error: Error) { return { error } }
  override render() {
    const { error } = this.state
    return error ? <div class="page"><Empty text={t('broken', { why: error.message })}><a href="/">{t('allRuns')}</a></Empty></div> : this.props.children
  }
}

function Outlet({ at }: { at: Place }) {
  const { page, rest } = routeOf(at.path)
  const [state, set] = useState<{ page: string; Page: Page | null; error: Error | null }>({ page: '', Page: null, error: null })
  useEffect(() => {
    let here = true
    load(page).then(
      (found) => { if (here) set({ page, Page: found, error: null }) },
      (error: Error) => { if (here) set({ page, Page: null, error }) },
    )
    return () => { here = false }
  }, [page])
  if (state.page === page && state.error) {
    return <div class="page">{state.error instanceof ApiError ? <Empty text={saying(state.error)}><a href="/">{t('allRuns')}</a></Empty> : <Trouble error={state.error} />}</div>
  }
  const Known = loaded.get(page) ?? (state.page === page ? state.Page : null)
  if (!Known) return <Later><div class="page" aria-busy="true"><div class="bone" /></div></Later>
  const key = page + '/' + rest.join('/')
  return <Boundary key={key}><Known path={rest} query={at.query} /></Boundary>
}

const places = ['runs', 'compare', 'workloads', 'scenarios', 'twin', 'settings'] as const
const letters: Record<(typeof places)[number], string> = { runs: 'r', compare: 'c', workloads: 'w', scenarios: 's', twin: 't', settings: 'e' }
const hrefOf = (p: (typeof places)[number]) => (p === 'runs' ? '/' : '/' + p)

function Rail({ at, close }: { at: Place; close: () => void }) {
  const [runs, set] = useState<RunRow[]>([])
  const [version, setVersion] = useState('')
  const [error, setError] = useState<ApiError | null>(null)
  useEffect(() => {
    const abort = new AbortController()
    let timer = 0
    const look = () => {
      api.runs(abort.signal).then((r) => { set(r); setError(null) }, (e) => { if (e instanceof ApiError) setError(e) })
        .finally(() => { if (!abort.signal.aborted) timer = window.setTimeout(look, document.hidden ? 30_000 : 5_000) })
    }
    look()
    api.version(abort.signal).then((v) => setVersion(v.version), () => {})
    return () => { abort.abort(); clearTimeout(timer) }
  }, [])
  // Who closes the question for the token gets a button for it, and it comes again after an answer.
  const [later, setLater] = useState(false)
  const asks = error?.status === 401
  useEffect(() => { if (!asks) setLater(false) }, [asks])
  const { page, rest } = routeOf(at.path)
  const shown = [...runs.filter((r) => r.live), ...runs.filter((r) => !r.live)].slice(0, 8)
  return (
    <aside class="rail" id="rail">
      <a class="brand" href="/" onClick={close}>
        <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true"><circle cx="8" cy="8" r="5.25" fill="none" stroke="currentColor" stroke-width="1.5" /><path d="M0 8h16" stroke="currentColor" stroke-width="1.5" /></svg>
        Plimsoll
      </a>
      <nav aria-label={t('pages')} onClick={close}>
        {places.map((p) => {
          const here = p === page || (p === 'runs' && page === 'run')
          return <a key={p} href={hrefOf(p)} aria-current={here && !(p === 'runs' && rest.length) ? 'page' : undefined}>{t(p)}</a>
        })}
      </nav>
      {shown.length > 0 && (
        <div>
          <h3>{t('recent')}</h3>
          <nav aria-label={t('recent')} onClick={close}>
            {shown.map((r) => (
              <a key={r.id} href={`/runs/${encodeURIComponent(r.id)}`} aria-current={at.path[0] === 'runs' && at.path[1] === r.id ? 'page' : undefined} title={r.id}>
                {r.live && <span class="live-dot" aria-hidden="true" />}
                <span class="cut grow">{r.name || r.id}</span>
                {r.live ? <span class="small muted">{t('live')}</span> : r.verdict && r.verdict !== 'valid' ? <span class={'small ' + (r.verdict === 'invalid' ? 'is-fail' : 'is-note')}>{t(r.verdict)}</span> : null}
              </a>
            ))}
          </nav>
        </div>
      )}
      <div class="foot">
        {error && error.status === 0 && <p class="small is-note" role="status">{t('unreachable')}</p>}
        {asks && later && <button type="button" class="button small" onClick={() => setLater(false)}>{t('token')}</button>}
        <Looks />
        {/* Its room is there before it is: nothing moves. */}
        <span class="small faint">{version ? t('version', { version }) : '\u00a0'}</span>
      </div>
      {asks && !later && <TokenDialog close={() => setLater(true)} />}
    </aside>
  )
}

function TokenDialog({ close }: { close: () => void }) {
  const [token, set] = useState('')
  const enter = (e: Event) => {
    e.preventDefault()
    if (token) location.assign(`${location.pathname}?token=${encodeURIComponent(token.trim())}`)
  }
  return (
    <Dialog title={t('token')} onClose={close}>
      <p class="muted">{t('tokenHow')}</p>
      <form class="row" onSubmit={enter}>
        <input class="field" type="password" autocomplete="off" aria-label={t('tokenName')} value={token} onInput={(e) => set(e.currentTarget.value)} />
        <button class="button primary" type="submit">{t('enter')}</button>
      </form>
    </Dialog>
  )
}

export function App() {
  const at = usePlace()
  const [open, setOpen] = useState(false)
  const [help, setHelp] = useState(false)
  const [, redraw] = useState(0)
  useEffect(() => {
    const again = () => redraw((n) => n + 1)
    const off = [onLanguage(again), onTheme(again)]
    return () => { for (const f of off) f() }
  }, [])
  useEffect(() => { const { page } = routeOf(at.path); document.title = page === 'run' ? `${at.path[1]} · Plimsoll` : 'Plimsoll' }, [at])
  useKeys([
    { keys: '?', text: () => t('help'), run: () => setHelp((h) => !h) },
    ...places.map((p) => ({ keys: `g ${letters[p]}`, text: () => t('goTo', { page: t(p) }), run: () => go(hrefOf(p)) })),
  ])
  return (
    <div class={'shell' + (open ? ' open' : '')} key={language()}>
      <a class="visually-hidden" href="#content">{t('skip')}</a>
      <Rail at={at} close={() => setOpen(false)} />
      <button type="button" class="rail-cover" aria-label={t('close')} onClick={() => setOpen(false)} />
      <main class="main" id="content">
        <div class="topbar">
          <button type="button" class="button small rail-toggle" aria-expanded={open} aria-controls="rail" onClick={() => setOpen(!open)}>{t('menu')}</button>
          <strong>Plimsoll</strong>
        </div>
        <Outlet at={at} />
      </main>
      {help && <Help close={() => setHelp(false)} />}
    </div>
  )
}
