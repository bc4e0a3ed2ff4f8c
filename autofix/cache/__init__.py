"""Results of earlier checks, kept between commands by the content of everything that a result rests on."""
