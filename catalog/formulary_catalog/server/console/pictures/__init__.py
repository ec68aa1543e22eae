"""Pictures of pages as inline SVG, made on the server: pure functions that escape every text and return `Markup`."""
