"""From forms and plans to programs: statements as data, which targets print."""
