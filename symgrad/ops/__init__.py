"""What pointwise functions (`functions`) and tensor operations (`tensors`) mean: tables with a row for each."""
