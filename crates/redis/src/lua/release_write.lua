return leave() == 'w' and 1 or 0
