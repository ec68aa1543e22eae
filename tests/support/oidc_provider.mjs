// An OpenID provider on loopback, run by oidc_provider.py. It believes every name; all but eve are on call.
// Arguments: the module oidc-provider, the address of the issuer, files of its certificate and key, the audience.
import { readFileSync } from "node:fs";
import { createServer } from "node:https";

const [module, issuer, certificate, key, audience] = process.argv.slice(2);
const { Provider } = await import(module);

const provider = new Provider(issuer, {
  claims: { openid: ["sub"] },
  extraTokenClaims: (_, token) => ({ groups: token.accountId === "eve" ? [] : ["oncall"] }),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    // Access tokens are JWTs for the audience that the API server knows, as with an audience mapper of Keycloak.
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({
        scope: "openid",
        audience,
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});
const { hostname, port } = new URL(issuer);
const answer = provider.callback();
createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (request, response) => {
  console.log(`${request.url} ${request.headers["user-agent"]}`);
  answer(request, response);
}).listen(port, hostname);
