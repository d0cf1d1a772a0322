return release('r')
