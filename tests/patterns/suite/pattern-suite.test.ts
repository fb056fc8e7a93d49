import { testPatterns } from "./pattern-suite.ts";
import { memoryTarget, rowhouseTarget } from "./target.ts";

testPatterns(memoryTarget);
testPatterns(rowhouseTarget);
