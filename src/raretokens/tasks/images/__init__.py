"""Classification of images: a table with a row a class, which is the softmax."""
