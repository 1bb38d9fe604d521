package cli

// scenarioFlags are the flags of run that make a scenario. Their values are
// text: the scenario reads, checks and refuses them exactly as it does those of
// a file.
type scenarioFlags struct {
	URL         string `name:"url" path:"target.url" placeholder:"URL[,URL]" group:"target" help:"The endpoint: a base, with or without /v1, or a full path. Several are used in turn."`
	Model       string `name:"model" path:"target.model" placeholder:"NAME" group:"target" help:"The model to ask for. Without it the model list is asked for its first."`
	API         string `name:"api" path:"target.api" placeholder:"NAME" group:"target" help:"openai.chat (default) or openai.completions."`
	NoStream    bool   `name:"no-stream" path:"target.no-stream" group:"target" help:"Ask for one body instead of a stream."`
	Usage       string `name:"usage" path:"target.usage" placeholder:"WHEN" group:"target" help:"Ask for token counts in a stream: final (default), running or none."`
	Temperature string `name:"temperature" path:"target.temperature" placeholder:"X" group:"target" help:"Sampling temperature; left to the server by default."`
	IgnoreEOS   bool   `name:"ignore-eos" path:"target.ignore-eos" group:"target" help:"Ask for exactly as many tokens as wanted (vllm, sglang, trtllm)."`
	ExtraBody   string `name:"extra-body" path:"target.extra-body" placeholder:"JSON" group:"target" help:"Further fields of the request body, as a JSON object."`
	accessFlags
	ConnectTimeout   string `name:"connect-timeout" path:"target.connect-timeout" placeholder:"D" group:"target" help:"Limit for name, connect and TLS (default 10s)."`
	HeaderTimeout    string `name:"header-timeout" path:"target.header-timeout" placeholder:"D" group:"target" help:"Limit from the request sent to the response header."`
	IdleTimeout      string `name:"idle-timeout" path:"target.idle-timeout" placeholder:"D" group:"target" help:"Limit for silence within a response."`
	Timeout          string `name:"timeout" path:"target.timeout" placeholder:"D" group:"target" help:"Limit for a whole request."`
	NewConnection    bool   `name:"new-connection" path:"target.new-connection" group:"target" help:"A new connection for every request."`
	ResetPrefixCache bool   `name:"reset-prefix-cache" path:"target.reset-prefix-cache" group:"target" help:"POST /reset_prefix_cache before the run (vllm)."`

	Workload     string `name:"workload" path:"users.workload" placeholder:"NAME" group:"users" help:"A built-in workload instead of the two lengths below."`
	PromptTokens string `name:"prompt-tokens" path:"users.prompt-tokens" placeholder:"DIST" group:"users" help:"Prompt length: 512, uniform:100..900, normal:512,64 or lognormal:p50=400,p99=4000."`
	OutputTokens string `name:"output-tokens" path:"users.output-tokens" placeholder:"DIST" group:"users" help:"Output length, likewise."`

	Users       string `name:"users" path:"load.users" placeholder:"N[,N...]" group:"load" help:"Users that each wait for their answer. A list is run one step after another."`
	Rate        string `name:"rate" path:"load.rate" placeholder:"R[,R...]" group:"load" help:"Requests a second, whatever the answers do, instead of users."`
	Arrival     string `name:"arrival" path:"load.arrival" placeholder:"KIND" group:"load" help:"How a rate arrives: poisson (default) or constant."`
	Duration    string `name:"duration" path:"load.duration" placeholder:"D" group:"load" help:"Length of the steady window of each step."`
	Requests    string `name:"requests" path:"load.requests" placeholder:"N" group:"load" help:"Number of requests of each step, instead of a duration."`
	Warmup      string `name:"warmup" path:"load.warmup" placeholder:"D" group:"load" help:"Load before the window, not in the figures."`
	Drain       string `name:"drain" path:"load.drain" placeholder:"D" group:"load" help:"How long to wait at the end for requests of the window."`
	MaxInFlight string `name:"max-in-flight" path:"load.max-in-flight" placeholder:"N" group:"load" help:"Cap on requests in flight."`
	Seed        string `name:"seed" path:"seed" placeholder:"N" group:"load" help:"Equal seeds make equal prompts, lengths and arrivals."`

	SLO            string `name:"slo" path:"guards.slo" placeholder:"LIMIT,..." group:"guards" help:"What is expected: ttft.p95=500ms,tpot.mean=40ms. Missed: exit code 3."`
	MaxErrorShare  string `name:"max-error-share" path:"guards.max-error-share" placeholder:"X" group:"guards" help:"Stop when more than this share of the last 100 requests failed (default 0.5)."`
	MaxTotalTokens string `name:"max-total-tokens" path:"guards.max-total-tokens" placeholder:"N" group:"guards" help:"Stop when this many tokens have been used."`

	Name      string   `name:"name" path:"name" placeholder:"S" group:"data" help:"Name of the run."`
	Tag       []string `name:"tag" path:"tag" sep:"none" placeholder:"K=V" group:"data" help:"A label of the run; may be repeated."`
	Out       string   `name:"out" path:"data.out" placeholder:"DIR" group:"data" help:"Folder of runs (default runs)."`
	SaveText  bool     `name:"save-text" path:"data.save-text" group:"data" help:"Keep the answers too."`
	Telemetry string   `name:"telemetry" path:"data.telemetry" placeholder:"URL,..." group:"data" help:"auto, none, or pages to read."`
	Set       []string `name:"set" sep:"none" placeholder:"PATH=VALUE" group:"data" help:"Set any field of the scenario; may be repeated."`
}
