r"""Train models larger than in a chapter, translate and write with them.

`attn-notes COMMAND --help` lists the options of a command; `attn-notes --version` prints the
version. Examples:

German numbers into English, about a minute on one core::

    attn-notes train seq2seq --out german
    attn-notes translate german dreiundsiebzig

A Transformer that reads digits and English and writes two languages::

    attn-notes train transformer --source digits,en --target de,fr --out two
    attn-notes translate two 1999 --to fr

A language model of your own texts::

    attn-notes train language-model --text novel.txt --out novel
    attn-notes sample novel "It was " --length 300

The same train command continues an interrupted training from its last checkpoint.
"""
