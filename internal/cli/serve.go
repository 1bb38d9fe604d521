package cli

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"plimsoll/internal/web"
)

// serveFlags say where a panel listens and what it allows.
type serveFlags struct {
	Host     []string `name:"host" placeholder:"NAME,..." group:"panel" help:"Further names by which the panel may be called, as that of a proxy in front of it."`
	Token    bool     `name:"token" group:"panel" help:"Ask for a token on a loopback address too: on a machine that others use. On any other address one is always asked for."`
	ReadOnly bool     `name:"read-only" group:"panel" help:"Only show: nothing is started, changed or deleted."`
	Files    string   `name:"files" placeholder:"DIR" group:"panel" help:"Scenarios that are started in the panel may name files of this folder (default none)."`
	AllowEnv []string `name:"allow-env" placeholder:"NAME,..." group:"panel" help:"Environment variables that such scenarios may name beside PLIMSOLL_... and ..._API_KEY."`
}

// pages are addresses at which a panel can be opened on this machine or from others, at
// least one, the one for this machine first.
type pages struct {
	hosts []string // host:port
	// more is how many there are beside these.
	more  int
	token string // "" where none is asked for
}

// at returns the address of a page of the panel at the host i.
func (p *pages) at(i int, path string) string {
	u := url.URL{Scheme: "http", Host: p.hosts[i], Path: path}
	if p.token != "" {
		u.RawQuery = url.Values{"token": {p.token}}.Encode()
	}
	return u.String()
}

// print says where the panel can be opened, in one piece.
func (p *pages) print(w io.Writer) {
	var b strings.Builder
	for i := range p.hosts {
		fmt.Fprintf(&b, "panel at %s\n", p.at(i, "/"))
	}
	if p.more > 0 {
		fmt.Fprintf(&b, "addresses of this machine that are not shown here: %d\n", p.more)
	}
	_, _ = io.WriteString(w, b.String())
}

// maxPages bounds how many addresses are printed: a machine of many networks has one in
// each.
const maxPages = 8

// hostsOf returns what can be called of an address, host:port, that is listened on: itself,
// or when it is all of this machine's, those that the machine has. Own are those of its
// networks.
func hostsOf(listen string, own []netip.Addr) []string {
	at, err := netip.ParseAddrPort(listen)
	if err != nil || !at.Addr().IsUnspecified() {
		return []string{listen}
	}
	// All of IPv6 is all of IPv4 too, as Go listens.
	local := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	for _, four := range []bool{true, false} {
		for _, ip := range own {
			ip = ip.Unmap()
			// One of a link alone has no meaning in an address of a page.
			if ip.Is4() != four || !four && at.Addr().Is4() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || slices.Contains(local, ip) {
				continue
			}
			local = append(local, ip)
		}
	}
	out := make([]string, 0, len(local))
	for _, ip := range local {
		out = append(out, netip.AddrPortFrom(ip, at.Port()).String())
	}
	return out
}

// ownAddresses are those of this machine's networks that are up; none where they cannot be
// known.
func ownAddresses() []netip.Addr {
	var out []netip.Addr
	links, _ := net.Interfaces() // none, then
	for i := range links {
		if links[i].Flags&net.FlagUp == 0 {
			continue
		}
		list, _ := links[i].Addrs()
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				out = append(out, p.Addr())
			}
		}
	}
	return out
}

// panel returns a server over a folder of runs that listens on address.
func (a *app) panel(runs, address string, f *serveFlags) (*web.Server, net.Listener, *pages, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(a.ctx, "tcp", address)
	if err != nil {
		return nil, nil, nil, usagef("listen on %s: %w", address, err)
	}
	listen := l.Addr().String()
	token := ""
	if f.Token || !web.Loopback(listen) {
		token = web.NewToken()
	}
	cfg := web.Config{
		Root: a.env.path(runs), Version: buildInfo().Version, Listen: listen, Hosts: f.Host, Token: token,
		LookupEnv: a.env.lookup, AllowEnv: f.AllowEnv, ReadOnly: f.ReadOnly,
	}
	if f.Files != "" {
		cfg.Files = a.env.path(f.Files)
	}
	s, err := web.New(cfg)
	if err != nil {
		_ = l.Close() // the first error is told
		return nil, nil, nil, err
	}
	p := &pages{hosts: hostsOf(listen, ownAddresses()), token: token}
	if len(p.hosts) > maxPages {
		p.more = len(p.hosts) - maxPages
		p.hosts = p.hosts[:maxPages]
	}
	return s, l, p, nil
}

type serveCmd struct {
	Runs   string `name:"runs" default:"runs" placeholder:"DIR" help:"Folder of runs."`
	Listen string `name:"listen" default:"127.0.0.1:8315" placeholder:"ADDR" help:"Address to listen on; port 0 takes a free one."`
	serveFlags
}

func (*serveCmd) Help() string {
	return "The panel shows the runs of a folder in a browser, starts new ones, and is a REST API (/api/openapi.json). Only this machine can reach it unless --listen says otherwise; then a token is needed, which is made anew at each start and is in the addresses that are printed."
}

func (*serveCmd) Examples() []string {
	return []string{"plimsoll serve", "plimsoll serve --runs results --listen 0.0.0.0:8315"}
}

func (c *serveCmd) Run(a *app) (err error) {
	s, l, at, err := a.panel(c.Runs, c.Listen, &c.serveFlags)
	if err != nil {
		return err
	}
	at.print(a.env.Stdout)
	if err = s.Serve(a.ctx, l); err == nil {
		err = s.Close(a.hard)
	}
	return err
}
