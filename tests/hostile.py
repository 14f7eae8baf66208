"""Tokens that mean harm: text that a careless page would run, drop, turn round or choke on.

Whatever runs sets `window.ran`; nothing may. Written with escapes, so that this file is safe to
read and no editor changes it.
"""

import re

RUN = "window.ran=1"

SCRIPTS = (
    f"</script><script>{RUN}</script>",
    f"</SCRIPT ><img src=x onerror={RUN}>",
    f"<sCrIpT>{RUN}</ScRiPt\t>",
    f"</script/><svg/onload={RUN}>",
    f"<!--<script>{RUN}</script>-->",
    "<!--",
    "--!>",
    f"]]><![CDATA[<img src=x onerror={RUN}>",
    f"</style></textarea></title></bdi></td></table><img src=x onerror={RUN}>",
    f"</attn-widget><img src=x onerror={RUN}>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<a href=javascript:{RUN} autofocus onfocus={RUN}>click</a>",
)
QUOTES = (f'" onmouseover="{RUN}', f"' autofocus onfocus='{RUN}", f"`;{RUN};//")
QUOTES += ('"}};' + RUN + "//", "\\", "\\u003c", "&lt;img src=x&gt;", "a&b&amp;c")
QUOTES += (f"&#60;script&#62;{RUN}",)
TEMPLATES = ("${" + RUN + "}", "{{" + RUN + "}}", "{% raw %}", "$&$1$$", "%s%n", "NaN")
TEMPLATES += (f"javascript:{RUN}", f"data:text/html,<script>{RUN}</script>")
TEMPLATES += ("__proto__", "constructor", "undefined")
INVISIBLE = ("", " ", "     ", "a\u2028b\u2029c", "\x00", "".join(map(chr, range(1, 32))))
INVISIBLE += ("\x7f\x80\x85\x9f", "\ufeff\u200b\u00ad", "\ufffe\uffff")
INVISIBLE += ("two\nlines\r\n\tand a tab",)
BIDI = ("\u202eright to left override", "\u202dleft to right override")
BIDI += ("\u2069\u202eout of its isolate", "\u2066\u2067\u2068never closed")
BIDI += ("\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627 123")
UNUSUAL = ("\ud800", "b\udfff", "\u0130\u1e9e\u03a3\u01c5", "\u5b57", "x" * 5000, "<" * 1000)
UNUSUAL += ("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",)
UNUSUAL += ("\U0001f3f4\U000e0067\U000e0062\U000e007f", "e\u0301\u0323" + "\u0336" * 40)

HOSTILE = SCRIPTS + QUOTES + TEMPLATES + INVISIBLE + BIDI + UNUSUAL

# No keyboard sends half a character, and no JSON holds one.
TYPABLE = tuple(token for token in HOSTILE if not re.search(r"[\ud800-\udfff]", token))
