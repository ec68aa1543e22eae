"""The service behind the governance tools: judgements on actions of any kind, each with a trace."""
