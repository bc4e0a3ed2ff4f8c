"""What earlier checks have found, kept between commands: by the content of everything that a result rests on."""
