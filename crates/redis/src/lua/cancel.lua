-- Whatever became of our acquire, it is over.
return leave() == '' and 0 or 1
