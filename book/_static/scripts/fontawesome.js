// In place of the theme's: its style sheet draws the same icons from a font.
