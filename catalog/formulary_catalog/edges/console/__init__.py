"""The console: pages under `/console` for people, over the same services as REST (DESIGN section 14).

`visitor` says who looks, `security` what a browser may do with a page, `templating` renders, `pages` has one module a
page. A page asks services with the visitor's own rights, never with those of the server.
"""
