return release('w')
