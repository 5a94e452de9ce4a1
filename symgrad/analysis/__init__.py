"""What is known of values before they are computed: which are integers, what signs they have, how large they are."""
