"""What the structure view draws: items that upload arrays and draw them, and the view that holds them."""
