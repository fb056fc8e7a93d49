import { render } from "preact";
import "./styles.css";
import "./insight.css";
import { Frame } from "./frame.tsx";
import { LoginScreen } from "./login-screen.tsx";
import { takeLink } from "./route.ts";
import { farewell, logIn, session } from "./session.ts";
import { restoreTheme } from "./theme.ts";

restoreTheme();
const link = takeLink();
if (link !== undefined) {
  // A link that does not open a session leaves one that is open already as it is.
  await logIn({ link }).catch((error: Error) => {
    farewell.value = error.message;
  });
}

function App() {
  return session.value ? <Frame key={session.value.token} /> : <LoginScreen />;
}

render(<App />, document.getElementById("app")!);
