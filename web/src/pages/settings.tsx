// What a reader may set: it is kept in the browser, and changes nothing on the server.

import { useState } from 'preact/hooks'
import { api, ask } from '../api'
import { language, setLanguage, words } from '../i18n'
import { currentDensity, currentTheme, setDensity, setTheme } from '../theme'
import { Switch, Trouble, useLoad } from '../ui'
import { Failed } from './parts/failed'
import './settings.css'

const t = words(
  {
    title: 'Settings', kept: 'Kept in this browser; nothing of it changes the server.', theme: 'Colours', system: 'as the system', dark: 'dark', light: 'light', language: 'Language', density: 'Density', usual: 'usual', compact: 'compact', token: 'Token',
    tokenSays: 'This browser has shown the token that this panel asks for.', out: 'Log out', gone: 'Logged out. The next page asks for the token.', server: 'Server', version: 'Version', readonly: 'It only shows runs: started with --read-only.', api: 'The REST API', doc: 'its OpenAPI document', keys: 'Press ? for the keys.',
  },
  {
    title: '设置', kept: '仅保存在此浏览器中，不会改变服务器。', theme: '配色', system: '跟随系统', dark: '深色', light: '浅色', language: '语言', density: '密度', usual: '标准', compact: '紧凑', token: '令牌',
    tokenSays: '此浏览器已提供此面板要求的令牌。', out: '退出登录', gone: '已退出登录。下一个页面将要求令牌。', server: '服务器', version: '版本', readonly: '只读：以 --read-only 启动。', api: 'REST API', doc: '其 OpenAPI 文档', keys: '按 ? 查看快捷键。',
  },
)

export default function Settings() {
  const version = useLoad(s => api.version(s), [])
  const [, again] = useState(0)
  const [gone, setGone] = useState(false)
  const [error, setError] = useState<Error | null>(null)
  const out = () => { ask<void>('/api/logout', { method: 'POST' }).then(() => { setGone(true); setError(null) }, (e: unknown) => setError(e as Error)) }
  return (
    <div class="page">
      <div class="page-head"><h1>{t('title')}</h1></div>
      <p class="muted">{t('kept')} {t('keys')}</p>
      <dl class="st">
        <dt>{t('theme')}</dt>
        <dd><Switch label={t('theme')} value={currentTheme()} options={[['system', t('system')], ['dark', t('dark')], ['light', t('light')]]} onChange={v => { setTheme(v); again(n => n + 1) }} /></dd>
        <dt>{t('language')}</dt>
        <dd><Switch label={t('language')} value={language()} options={[['en', 'English'], ['zh', '中文']]} onChange={v => setLanguage(v)} /></dd>
        <dt>{t('density')}</dt>
        <dd><Switch label={t('density')} value={currentDensity()} options={[['usual', t('usual')], ['compact', t('compact')]]} onChange={v => { setDensity(v); again(n => n + 1) }} /></dd>
        {version.value?.token && <><dt>{t('token')}</dt><dd class="row">{gone ? <span role="status">{t('gone')}</span> : <><span>{t('tokenSays')}</span><button type="button" class="button small" onClick={out}>{t('out')}</button></>}</dd></>}
        <dt>{t('server')}</dt>
        <dd>{version.value && <>{t('version')} {version.value.version}{version.value.readonly && <> · {t('readonly')}</>}</>}</dd>
        <dt>{t('api')}</dt>
        <dd><a href="/api/openapi.json">{t('doc')}</a></dd>
      </dl>
      {error && <Failed error={error} />}
      {version.error && <Trouble error={version.error} />}
    </div>
  )
}
