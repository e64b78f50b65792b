/* The theme's 1.5 MB of icon drawings; its style sheet draws the same icons from a font. */
