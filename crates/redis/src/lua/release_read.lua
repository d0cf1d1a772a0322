return leave() == 'r' and 1 or 0
