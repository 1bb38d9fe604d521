package scenario

// Field is what a person needs to know about one field.
type Field struct {
	// Help is one or two sentences: meaning, unit, and what leaving it out
	// does.
	Help string
	// Example is a value as it stands in a file.
	Example string
	// Choices are the only values, when there are only some.
	Choices []string
	// Arg names the value of the flag in a usage text, as N or DIST; empty for
	// a flag that takes none.
	Arg string
}

// groups says what each group of fields is for.
var groups = map[string]string{
	"target": "where requests go and how they are shaped",
	"users":  "who the users are: what they send and how much they want back",
	"load":   "how much load is applied, and for how long",
	"guards": "when the run is stopped, and what is expected of it",
	"data":   "where the run is kept, and what is read beside it",
}

// fieldHelp has every field of Scenario by path; a test keeps it complete. The
// JSON Schema, the page docs/scenario.md and the command line read it.
var fieldHelp = map[string]Field{
	"name": {Help: "Name of the run, part of its folder's name.", Example: "nightly", Arg: "S"},
	"tag":  {Help: "Labels of the run, for finding and comparing runs later. On the command line `--tag K=V`, again for each.", Example: "{gpu: h100, engine: vllm}", Arg: "K=V"},
	"seed": {Help: "Equal seeds make equal prompts, lengths and arrivals. Left out, one is drawn and saved: a server with a prefix cache answers the same prompts faster the second time.", Example: "42", Arg: "N"},

	"target.url":                {Help: "The endpoint: a base with or without `/v1`, or the full path of an endpoint. Several are used in turn.", Example: "http://localhost:8000", Arg: "URL[,URL]"},
	"target.model":              {Help: "The model to ask for. Left out, the server's model list is asked for its first.", Example: "meta-llama/Llama-3.1-8B-Instruct", Arg: "NAME"},
	"target.api":                {Help: "The API to speak. Left out, it follows from the path in `url` when that names an endpoint.", Example: "openai.completions", Choices: []string{APIChat, APICompletions, APIResponses}, Arg: "NAME"},
	"target.api-key-env":        {Help: "Name of the environment variable that holds the key, which is sent as `Authorization: Bearer KEY`. The key itself is never written anywhere.", Example: "OPENAI_API_KEY", Arg: "NAME"},
	"target.header":             {Help: "Further header fields of every request. A value that is a key must come from the environment: `${NAME}`. On the command line `--header K=V`, again for each.", Example: "{X-Team: research, x-api-key: \"${TEAM_KEY}\"}", Arg: "K=V"},
	"target.extra-body":         {Help: "Further fields of every request body, sent as they are. On the command line a JSON object.", Example: "{top_p: 0.9}", Arg: "JSON"},
	"target.no-stream":          {Help: "Ask for one body instead of a stream. There are no token times then.", Example: "true"},
	"target.temperature":        {Help: "Sampling temperature. Left out, the server's own.", Example: "0.7", Arg: "X"},
	"target.ignore-eos":         {Help: "Ask for exactly as many output tokens as were drawn (`ignore_eos` and `min_tokens`, where the server knows them).", Example: "true"},
	"target.usage":              {Help: "Token counts to ask for in a stream: with the last event, with every event, or none.", Example: "running", Choices: []string{UsageFinal, UsageRunning, UsageNone}, Arg: "WHEN"},
	"target.tokenizer":          {Help: "The model's `tokenizer.json`, or tiktoken's ranks, where the name tells the encoding or it stands before (`kimi:tiktoken.model`); see docs/tokenizer.md. It counts the output tokens where the server does not, says which event brought which tokens, and is compared with the server's counts.", Example: "tokenizer.json", Arg: "FILE"},
	"target.ca":                 {Help: "File with the certificates (PEM) to trust instead of the system's.", Example: "ca.pem", Arg: "FILE"},
	"target.cert":               {Help: "File with the client's certificate (PEM); needs `key`.", Example: "client.pem", Arg: "FILE"},
	"target.key":                {Help: "File with the client's private key (PEM); needs `cert`.", Example: "client.key", Arg: "FILE"},
	"target.insecure":           {Help: "Do not check the server's certificate. The report says so.", Example: "true"},
	"target.hardware":           {Help: "What one replica of the service runs on: GPUs, and the precision of the weights when it is not bf16. With it, answers that come faster than the memory of these GPUs could deliver are noted.", Example: "\"2xh100,fp8\"", Arg: "[Nx]GPU[,P]"},
	"target.proxy":              {Help: "HTTP proxy for all requests. Left out, none is used, whatever the environment says.", Example: "http://proxy.example:3128", Arg: "URL"},
	"target.connect-timeout":    {Help: "Limit for name look-up, connect and TLS.", Example: "5s", Arg: "D"},
	"target.header-timeout":     {Help: "Limit from the last byte sent to the response header. `0s` is none.", Example: "30s", Arg: "D"},
	"target.idle-timeout":       {Help: "Limit for silence between bytes of a response. `0s` is none.", Example: "30s", Arg: "D"},
	"target.timeout":            {Help: "Limit for a whole request; it also cuts answers that are still arriving. `0s` is none.", Example: "5m", Arg: "D"},
	"target.new-connection":     {Help: "Use a new connection for every request.", Example: "true"},
	"target.reset-prefix-cache": {Help: "Empty the server's prefix cache before the run (`POST /reset_prefix_cache`).", Example: "true"},

	"users.workload":      {Help: "Who the users are: names of the library (`plimsoll workloads list`) or files ending in .yaml, several with weights as NAME=WEIGHT. With sessions of several requests `load.rate` is that of sessions. Left out, or `synthetic`: independent prompts of the two lengths below.", Example: "[legal/contract-review=3, synthetic=1]", Arg: "NAME[=WEIGHT],..."},
	"users.prompt-tokens": {Help: "Length of a prompt in tokens: a number or a distribution.", Example: "lognormal:p50=400,p99=4000", Arg: "DIST"},
	"users.output-tokens": {Help: "Length to ask for (`max_tokens`): a number or a distribution. With a trace or a data set: of requests whose output the file does not say, which is left to the server otherwise.", Example: "uniform:100..900", Arg: "DIST"},
	"users.lengths":       {Help: "How the lengths of generated prompts come about where there is no `tokenizer` to cut them: `estimated` (the default) by what a kind of text has in many vocabularies, or `exact`: by what the server counts of some texts before the run, with its tokenizer (`POST /tokenize`), else by requests for one token.", Example: "exact", Choices: []string{LengthsEstimated, LengthsExact}, Arg: "HOW"},

	"users.trace":            {Help: "A trace that is replayed with its own times, instead of a workload and a load; see docs/traces.md. `plimsoll trace inspect` says what is in it.", Example: "conversation_trace.jsonl", Arg: "FILE"},
	"users.dataset":          {Help: "A data set, or a trace without its times: users, or a rate of sessions, go through its sessions, again and again.", Example: "sharegpt.json", Arg: "FILE"},
	"users.speed":            {Help: "Divides the times of a trace and the waits between turns: 2 is twice as fast. Left out, it is 1.", Example: "2", Arg: "X"},
	"users.timing":           {Help: "When a later turn of a trace starts: at its recorded time but not before the answer it waits for (`absolute`, the default), or as long after that answer as recorded (`causal`).", Example: "causal", Choices: []string{TimingAbsolute, TimingCausal}, Arg: "HOW"},
	"users.gap-cap":          {Help: "Longest time of a trace without a start, and longest wait of a turn, before `speed`: what is idle for longer is shortened. Left out, nothing is.", Example: "10s", Arg: "D"},
	"users.from":             {Help: "Leave out what begins before this time of the trace.", Example: "10m", Arg: "D"},
	"users.until":            {Help: "Leave out what begins at this time of the trace or later.", Example: "20m", Arg: "D"},
	"users.spread":           {Help: "Distribute the requests of one instant evenly over the time to the next, for traces with coarse times.", Example: "true"},
	"users.answers":          {Help: "What later turns have in their history: the `server`'s own answers (the default) or those `recorded` in the file.", Example: "recorded", Choices: []string{AnswersServer, AnswersRecorded}, Arg: "WHOSE"},
	"users.content":          {Help: "Generator of the text of prompts of which the file has only the length; see docs/content.md. Left out, plain words.", Example: "prose", Arg: "NAME"},
	"users.image-size":       {Help: "Width and height of the images that requests of the file had: as many as each had are made and sent, beside the tokens that the file says. Left out, none are.", Example: "1024x768", Arg: "WxH"},
	"users.format":           {Help: "The file's format, as `plimsoll trace formats` lists them. Left out, it is found from the content.", Example: "mooncake", Arg: "NAME"},
	"users.time-unit":        {Help: "What the file's times are in. Left out, the unit of its format.", Example: "ms", Choices: []string{"ns", "us", "ms", "s"}, Arg: "U"},
	"users.block-size":       {Help: "Tokens that one hash of the file stands for. Left out, that of its format.", Example: "512", Arg: "N"},
	"users.column":           {Help: "Which column or field of the file holds what: timestamp, input, output, session, prompt, model, id. On the command line `--column WHAT=NAME`, again for each.", Example: "{input: in, output: out}", Arg: "WHAT=NAME"},
	"users.turns":            {Help: "What rows of one session hold: the whole prompt (`cumulative`) or what is new (`delta`). Left out, what the file says.", Example: "delta", Choices: []string{"cumulative", "delta"}, Arg: "HOW"},
	"users.keep-zero-output": {Help: "Keep rows without output tokens, as requests for one. Left out, they are left out: most are failures.", Example: "true"},
	"users.on-bad-row":       {Help: "A row that is not right: an error (`fail`, the default), left out (`skip`), or mended where its hashes do not fit its length (`fix`).", Example: "skip", Choices: []string{"fail", "skip", "fix"}, Arg: "WHAT"},

	"load.users":         {Help: "Number of users, who each send the next request when the last has been answered. Several numbers run one step after another.", Example: "[1, 8, 64]", Arg: "N[,N...]"},
	"load.rate":          {Help: "Requests a second, sent whether or not earlier ones have been answered. Several numbers run one step after another. Either `users`, `rate` or `stages`.", Example: "[0.5, 2]", Arg: "R[,R...]"},
	"load.arrival":       {Help: "How a rate arrives: at random (`poisson`, the default), evenly, or at random with a `burstiness` of its own. Only with `rate` or `stages`.", Example: "constant", Choices: Arrivals, Arg: "KIND"},
	"load.burstiness":    {Help: "Of `gamma` arrivals: 1 is `poisson`, less is burstier, more is more even. The squared coefficient of variation of the gaps is 1 divided by it.", Example: "0.5", Arg: "X"},
	"load.shape":         {Help: "How the rate goes over the window, as multiples of `rate`: `ramp`, `spikes`, `market-open`, `diurnal` or `on-off` (see above). Left out, it stays what it is. During the warm-up it is what the shape begins with.", Example: "spikes:to=5,every=1m,for=5s", Arg: "SHAPE"},
	"load.stages":        {Help: "Stages one after another, each LENGTH:RATE or LENGTH:FROM..TO, instead of `rate` and `duration`. On the command line also a file with one a line.", Example: "[\"30s:10\", \"1m:10..50\"]", Arg: "FILE"},
	"load.duration":      {Help: "Length of the steady window of each step. Left out, it is 1m, unless `requests` is given.", Example: "5m", Arg: "D"},
	"load.requests":      {Help: "Number of requests of each step, instead of a duration.", Example: "1000", Arg: "N"},
	"load.warmup":        {Help: "Load before the window that does not count. Left out, there is none.", Example: "30s", Arg: "D"},
	"load.drain":         {Help: "How long to wait after the window for its requests to end; those that have not are `incomplete`.", Example: "2m", Arg: "D"},
	"load.steps":         {Help: "Steps with users or rates, lengths and fields of the workload of their own, one after another, instead of `users`, `rate` or `stages` (see below). A probe alone makes them; see docs/probes.md.", Example: "[{users: 1, requests: 8}, {users: 4, requests: 32}]", Arg: "STEPS"},
	"load.workloads":     {Help: "Workloads side by side, each with users or a rate of its own, mixed as you like, instead of `users`, `rate`, `stages` or `steps` and of `users.workload` (see below).", Example: "[{workload: finance/strategy-simulation, rate: 5}, {workload: healthcare/patient-summary, rate: 0.2}]", Arg: "WORKLOADS"},
	"load.max-in-flight": {Help: "Cap on requests in flight at once. Left out, there is none.", Example: "256", Arg: "N"},

	"guards.slo":              {Help: "What is expected, as METRIC.STAT=DURATION. METRIC is ttft, ttfc, ttlt, e2e, tpot or itl; STAT is mean, p50, p75, p90, p95, p99, p999 or max. `workload` stands for the limits that come with the workloads. A missed one makes the exit code 3.", Example: "[ttft.p95=500ms, tpot.mean=40ms]", Arg: "LIMIT,..."},
	"guards.max-error-share":  {Help: "The run stops when more than this share of its last 100 requests has failed.", Example: "0.1", Arg: "X"},
	"guards.max-total-tokens": {Help: "The run stops when this many prompt and output tokens have been used. Left out, there is no limit.", Example: "1000000", Arg: "N"},

	"data.out":                {Help: "Folder that runs are kept in.", Example: "runs", Arg: "DIR"},
	"data.save-text":          {Help: "Keep the text of the answers too.", Example: "true"},
	"data.telemetry":          {Help: "What the servers say about themselves: `auto` (looked for on the endpoint's host), `none`, or pages to read; `auto` may stand beside pages. A page is a URL, or a group with the fields below.", Example: "[auto, \"http://10.0.0.7:9400/metrics\"]", Arg: "URL,..."},
	"data.telemetry-interval": {Help: "Time from one reading of a page to the next, 100ms to 1m. A page that is slow to read is read less often, and the report says so.", Example: "500ms", Arg: "D"},
	"data.telemetry-tables":   {Help: "Files (YAML) that say what the names on pages of other sources mean; see docs/telemetry.md. They come before the built-in ones.", Example: "[my-engine.yaml]", Arg: "FILE,..."},
}

// loadPartHelp has every field of a LoadPart.
var loadPartHelp = map[string]Field{
	"workload":   {Help: "A name of the library, a file, or `synthetic`; each stands here once.", Example: "legal/contract-review"},
	"users":      {Help: "Number of its users. Either `users` or `rate`; some workloads may have the one and others the other.", Example: "8"},
	"rate":       {Help: "Its sessions a second.", Example: "2.5"},
	"arrival":    {Help: "How they arrive; `load.arrival` when it is left out.", Example: "poisson"},
	"burstiness": {Help: "That of gamma arrivals; `load.burstiness` when it is left out.", Example: "0.5"},
	"shape":      {Help: "How its rate goes over the window; `load.shape` when it is left out.", Example: "ramp:to=3,over=10m"},
}

// stepHelp has every field of a LoadStep, partHelp every field of a StepPart.
var stepHelp = map[string]Field{
	"users":    {Help: "Number of users of the step. Either `users` or `rate`, the same in all steps.", Example: "8"},
	"rate":     {Help: "Requests (sessions) a second of the step.", Example: "2.5"},
	"duration": {Help: "Length of its window. Left out, with `requests`, it is `load.duration`.", Example: "30s"},
	"requests": {Help: "Number of its requests, instead of a duration.", Example: "64"},
	"warmup":   {Help: "Load before its window. Left out, it is `load.warmup`.", Example: "5s"},
	"set":      {Help: "Fields of the workload that are something else in this step, as under `vary` in a workload.", Example: "{prompt.turn: 4096}"},
	"parts":    {Help: "Who the users are instead of `users.workload`: groups of `workload`, `weight` and `set`, to which they are dealt out in turn.", Example: "[{weight: 3}, {set: {prompt.turn: 4096}}]"},
}

var partHelp = map[string]Field{
	"workload": {Help: "A name of the library, or a file; left out, that of users.workload.", Example: "gpu-hbm/interference"},
	"weight":   {Help: "A whole number, 1 when it is left out.", Example: "3"},
	"set":      {Help: "Fields of the workload, over those of the step.", Example: "{prompt.turn: 4096}"},
}

// pageHelp has every field of a Page.
var pageHelp = map[string]Field{
	"url":         {Help: "The page, or the base URL of a Prometheus.", Example: "https://10.0.0.7:9400/metrics"},
	"kind":        {Help: "What answers there: a page in the exposition format or JSON (`page`, the default), or a Prometheus that is asked (`prometheus`).", Example: "prometheus", Choices: []string{PageExposition, PagePrometheus}},
	"match":       {Help: "Of a Prometheus: labels that its series must have.", Example: "{namespace: llm, job: vllm}"},
	"api-key-env": {Help: "Name of the environment variable that holds the key, which is sent as `Authorization: Bearer KEY`. The target's own key is only sent to pages on the same host and port as the target.", Example: "PROM_TOKEN"},
	"header":      {Help: "Header fields of every reading. A value that is a key must come from the environment: `${NAME}`.", Example: "{X-Scope-OrgID: team}"},
	"ca":          {Help: "File with the certificates (PEM) to trust instead of the system's.", Example: "ca.pem"},
	"cert":        {Help: "File with the client's certificate (PEM); needs `key`.", Example: "client.pem"},
	"key":         {Help: "File with the client's private key (PEM); needs `cert`.", Example: "client.key"},
	"insecure":    {Help: "Do not check the server's certificate. The report says so.", Example: "true"},
}

// Help returns what to know about the field at path; ok is false when there is
// no such field.
func Help(path string) (f Field, ok bool) {
	f, ok = fieldHelp[path]
	return f, ok
}
