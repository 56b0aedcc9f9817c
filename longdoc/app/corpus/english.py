"""English words and phrasings of the embedded corpus, in the template language of `longdoc.app.corpus.writer`."""

from longdoc.app.corpus.writer import words

_ONSETS = words(
    "B Br C Ch Cl Cr D Dr F Fl G Gr H K L M N P Pr R S Sh St T Th Tr W"
)
_RIMES = words(
    "ad al am an ar arn ather el en er eld il in ing ol om on or orn ul ur us ack amb and ark edge elm end ern ind "
    "oak old ond ost oul ound und urn ey ay aw ow eath air aven ever iver over illing addle anner enn arl"
)
_FAMILIES = words(
    "ley ton field worth well bourne wick ford stead more low shaw croft"
)
_QUARTERS = words(
    "minster mouth chester bury pool haven bridge port by gate hithe"
)
_ACTS = words(
    "Carriage Goods Land Warehousing Tenancies Misrepresentation Machinery Payment Shipping Limitation Contracts "
    "Credit Arbitration Harbours Partnership Factors Consumers Building Bills Agency Insurance Weights Navigation "
    "Cheques Fuel Plant Markets Railways Docks Auctions Pledges Sureties Interest Deposits Leases Fisheries Mines "
    "Patents Salvage Bailment Bankruptcy Bridges Canals Charities Dairies Drainage Electricity Factories Forestry Gas "
    "Housing Explosives Pilotage Ports Poisons Roads Seeds Tolls Trustees Waterworks Wharves Wills Workshops "
    "Moneylenders"
)
_MATTERS = words(
    "Amendment Appeals Arrangements Commencement Consolidation Damages Enforcement Evidence Fees Duties General "
    "Offences Officers Powers Procedure Provisions Registration Remedies Safety Temporary"
)
_LETTERS = "ABCDEFGHJKLMNOPRSTUVWXY"

# Every table here is dealt out to the splits item by item: no split sees a name or a phrasing of another. Where names are put
# together of parts, the number of last parts is odd, so that each part comes to every split.
DEALT: dict[str, tuple[str, ...]] = {
    "surname": tuple(onset + rime + family for onset in _ONSETS for rime in _RIMES for family in _FAMILIES),
    "town": tuple(onset + rime + quarter for onset in _ONSETS for rime in _RIMES for quarter in _QUARTERS),
    "code": tuple(first + second for first in _LETTERS for second in _LETTERS),
    "act_name": tuple(f"{act}{more}" for act in _ACTS for more in ("", *(f" ({matter})" for matter in _MATTERS), " and Goods", " and Land")),
    "head": (
        "In the {court}\n\nCase No {number}", "{court}\n\nClaim number {number}", "{number}\nIn the {court}",
        "JUDGMENT\n\nCourt: {court}\nCase number: {number}", "The {court}\n\nNo. {number}", "Claim {number}\n\n{court}",
        "Judgment of the {court}\nCase {number}", "In the {court}\nClaim No {number}",
        "Approved judgment in {number}\n\n{court}", "Number {number}\n\nBefore the {court}", "{court}\nFile {number}",
        "THE COURT\n{court}\n\nTHE CASE\n{number}", "Court\n{court}\n\nNumber\n{number}", "Case: {number}\nCourt: {court}",
        "{court}, case {number}", "JUDGMENT in case {number}\nof the {court}",
    ),
    "sides": (
        "BETWEEN\n\n{P0.full}\n{P1.full}\nClaimants\n\n- and -\n\n{D0.full}\n{D1.full}\nDefendants",
        "CLAIMANTS\n(1) {P0.full}\n(2) {P1.full}\n\nDEFENDANTS\n(1) {D0.full}\n(2) {D1.full}",
        "Parties\n\nClaimants: {P0.full}; {P1.full}\nDefendants: {D0.full}; {D1.full}",
        "Between {P0.full} and {P1.full} (claimants)\nand\n{D0.full} and {D1.full} (defendants)",
        "Between:\n\n{P0.full}\nand {P1.full}\n(Claimants)\n\nv\n\n{D0.full}\nand {D1.full}\n(Defendants)",
        "First claimant: {P0.full}\nSecond claimant: {P1.full}\n\nFirst defendant: {D0.full}\nSecond defendant: {D1.full}",
        "{P0.full}\n{P1.full}\nwho are the claimants\n\nand\n{D0.full}\n{D1.full}\nwho are the defendants",
        "The claimants\n{P0.full}\n{P1.full}\n\nThe defendants\n{D0.full}\n{D1.full}",
        "{P0.full} and {P1.full}\nClaimants\n\nagainst\n\n{D0.full} and {D1.full}\nDefendants",
        "Claimants\n\n1. {P0.full}\n2. {P1.full}\n\nDefendants\n\n1. {D0.full}\n2. {D1.full}",
        "(1) {P0.full}\n(2) {P1.full}\nClaimants\n\n(1) {D0.full}\n(2) {D1.full}\nDefendants",
        "For the claim: {P0.full}, {P1.full}, claimants\nAgainst it: {D0.full}, {D1.full}, defendants",
        "A claim by {P0.full} and {P1.full}, claimants, against {D0.full} and {D1.full}, defendants",
        "Defendants: {D0.full} and {D1.full}\nClaimants: {P0.full} and {P1.full}",
        "The defendants: (1) {D0.full}; (2) {D1.full}\nThe claimants: (1) {P0.full}; (2) {P1.full}",
        "{P0.full}, first claimant\n{P1.full}, second claimant\n\n{D0.full}, first defendant\n{D1.full}, second defendant",
    ),
    "bench": (
        "Before {J0.full}", "Heard before {J0.full}", "Judge: {J0.full}", "Before:\n\n{J0.full}", "Judge\n{J0.full}",
        "Trial judge: {J0.full}", "The judge: {J0.full}", "Before the judge, {J0.full}", "Tried by {J0.full}, judge",
        "Sitting as judge\n{J0.full}", "Coram: {J0.full}", "Judgment given by {J0.full}, judge",
        "{J0.full}, sitting as judge", "Before Judge {J0.full}", "Decided by judge {J0.full}", "PRESENT: {J0.full}, judge",
    ),
    "appearances": (
        "{C0.full} and {C1.full} for the claimants\n{C2.full} for the defendants",
        "COUNSEL\nFor the claimants: {C0.full}, {C1.full}\nFor the defendants: {C2.full}",
        "Counsel for the claimants, {C0.full} and {C1.full}\nCounsel for the defendants, {C2.full}",
        "Counsel: {C0.full} with {C1.full} for the claimants; {C2.full} for the defendants",
        "{C0.full} and {C1.full} appeared as counsel for the claimants.\n{C2.full} appeared as counsel for the defendants.",
        "Representation by counsel\nClaimants: {C0.full}; {C1.full}\nDefendants: {C2.full}",
        "Counsel\n{C0.full} and {C1.full}, for the claimants\n{C2.full}, for the defendants",
        "Counsel appearing for the claimants: {C0.full}; {C1.full}\nCounsel appearing for the defendants: {C2.full}",
    ),
    "dates": (
        "Hearing dates: {date}; {date}", "Heard on {date} and {date}", "The hearing took place on {date} and {date}.",
        "Handed down on {date} after a hearing on {date}", "Trial: {date}, {date}",
        "Date of judgment: {date}\nHeard on {date}", "Judgment of {date}", "Dates of hearing: {date} and {date}",
    ),
    "introduces": (
        "This is a dispute about {subject}.", "The claim, for {amount}, arises out of {subject}.",
        "By a claim form issued on {date} the sum of {amount} was claimed.",
        "What is in dispute is {subject}, and there is a counterclaim.",
        "The court has before it a claim and a counterclaim about {subject}.",
        "The claim is for {amount}, the counterclaim for {amount}.", "The trial concerned {subject}.",
        "What began on {date} as a small difference about {subject} has become a case about {amount}.",
    ),
    "named": (
        "{them!} are {X.full} and {Y.full}.", "{X.full} and {Y.full} are {them}.", "{them!}: {X.full}; {Y.full}.",
        "By {them} are meant {X.full} and {Y.full}.", "The names of {them} are {X.full} and {Y.full}.",
        "I list {them}: {X.full}, {Y.full}.", "The file shows {X.full} and {Y.full} as {them}.",
        "Of {them} mention must be made of {X.full} and {Y.full}.", "As {them} there were {X.full} and {Y.full}.",
        "{them!}, {X.full} and {Y.full}, need no introduction.", "One meets {them} under the names of {X.full} and {Y.full}.",
        "{X.full}, like {Y.full}, is among {them}.", "{them!} include {X.full} and also {Y.full}.",
        "Throughout, {X.full} and {Y.full} were {them}.", "I shall call {X.full} and {Y.full} {them}.",
        "{them!} may be named: {X.full} and, with the same part to play, {Y.full}.",
        "Among {them} are {X.full} and {Y.full}.", "Two names stand for {them}, {X.full} and {Y.full}.",
        "{X.full} is one of {them}, {Y.full} another.", "We have as {them} {X.full} and {Y.full}.",
        "In the list of {them} I find {X.full} and {Y.full}.", "Here {them} were {X.full} and {Y.full}.",
        "{X.full}; {Y.full}: these are {them}.", "Both {X.full} and {Y.full} belong to {them}.",
    ),
    "witness_opens": (
        "I turn to the oral evidence.", "The witness statements come next.", "From the witness box came the following.",
        "A number of people were sworn as witnesses.", "Cross-examination of the witnesses occupied a whole day.",
        "None of the witnesses was shaken in evidence.", "As to the testimony, each witness had made a statement.",
        "Evidence was heard from independent witnesses, whose recollection was [good|uneven].",
    ),
    "counsel_opens": (
        "I am grateful to counsel on both sides for their submissions.", "Counsel were not agreed on the law.",
        "Written submissions were lodged by counsel, and some of them were repeated orally.",
        "The skeleton arguments of counsel cover much ground.", "When counsel came to close, the argument had narrowed.",
        "It was submitted by counsel that the point was covered by authority.",
        "On the law I had the help of counsel instructed by the [claimants|defendants].",
        "Counsel's final submissions took a different turn.",
    ),
    "judge_opens": (
        "The judge below gave a careful judgment.", "At first instance the matter was tried by a judge of long experience.",
        "The [findings|conclusions] of the judge below were as follows.", "The judge's reasons can be stated in a few lines.",
        "Before this trial the file had passed through the hands of another judge.",
        "Permission to amend was considered by the judge in chambers.", "In the court below the judge took a different view.",
        "The ruling of the judge on the preliminary issue was given orally.",
    ),
    "subject": (
        "a cargo of seed potatoes", "the lease of a warehouse", "a charter of two barges", "the repair of a printing press",
        "the sale of a dairy herd", "a loan secured on machinery", "the building of a sea wall", "a partnership in a quarry",
        "the storage of frozen fish", "the dissolution of an agency", "an option over farm land", "the supply of steel pipes",
        "a contract to dredge a canal", "the hire of three cranes", "the purchase of a foundry", "a policy on a barn",
    ),
    "role_opens": (
        "It is convenient to begin with what {who} said.", "{who!} put the matter in this way.",
        "I take next the version of {who}.", "As {who} told it, events went as follows.",
        "The account given by {who} was [short|plain|confused|clear].",
        "As to the {thing}, {who} took the following position.", "Next, the {thing} as seen by {who}.",
        "From {who} came a [careful|brief|confused] account of the {thing}.",
        "The {thing} was treated by {who} at some length.", "What {who} had to say about the {thing} can be stated briefly.",
        "So far as {who} can be followed, the {thing} came first.", "Of the {thing} {who} made rather a lot.",
        "On a [fair|close|first] reading, {who} said no more than this.", "{who!} did not always say the same.",
        "It is time to hear {who} on the {thing}.", "I summarise in a few lines what was said by {who}.",
        "There is next the attitude of {who} to the {thing}.", "{who!} spoke of the {thing} and of the {thing}.",
        "The papers contain a [full|short] note of what {who} said.", "Then {who} came to the {thing}.",
        "No better summary can be given than that of {who}.", "{who!} began with the {thing}.",
        "The words of {who} about the {thing} were [few|plain|careful].",
        "I pass on to {who}, for whom the {thing} mattered most.",
    ),
    "authority_opens": (
        "The leading authority is {X.short} v {Y.short}, which was [much|frequently] cited.",
        "Reference was made to the decision in {X.short} v {Y.short}.",
        "I was taken to {X.short} v {Y.short}, an authority on similar facts.",
        "A reported case, {X.short} v {Y.short}, is said to be indistinguishable.",
        "The point arose in the well-known case of {X.short} v {Y.short}, and the facts there need stating.",
        "There is a line of authority that begins with {X.short} v {Y.short}.",
        "The textbooks discuss {X.short} v {Y.short} under this heading. The facts of that case were unusual.",
        "The opposite result was reached in the decided case of {X.short} v {Y.short}.",
        "Some help can be had from the report of {X.short} v {Y.short}.",
        "In {X.short} v {Y.short}, a decision that binds this court, much turned on the papers.",
        "The rule comes from the old case of {X.short} v {Y.short}.",
        "I do not find {X.short} v {Y.short} easy to reconcile with the other reported cases.",
        "The authority most in point is {X.short} v {Y.short}.",
        "Another case in the reports, {X.short} v {Y.short}, went the other way.",
        "The decision in {X.short} v {Y.short} was relied upon as authority, and its facts are these.",
        "Of the reported cases only {X.short} v {Y.short} needs to be described.",
    ),
    "procedure_opens": (
        "The procedural history of the present action is as follows.",
        "I must say something of how this action comes before the court.", "These proceedings have had a long course.",
        "The present claim has been through several stages.", "The steps taken in this action can be listed.",
        "Next comes the procedural background to these proceedings.", "The course of the present proceedings was not smooth.",
        "How this claim reached trial must be explained.", "There were a number of orders in these proceedings.",
        "The history of this action matters on costs.", "Several interim applications were made in the present action.",
        "As to procedure in this claim, the position is simple.", "The present proceedings were not the first.",
        "A word is needed on the conduct of this action.", "The court file in these proceedings shows this.",
        "The earlier stages of the present claim were these.",
    ),
    "far_opens": (
        "The contemporaneous notes record what each of them said.", "The chronology can now be completed.",
        "I come to the meetings at which the matter was discussed.", "The correspondence file was put in by agreement.",
        "Minutes were kept of the discussions.", "It remains to set out the exchanges.",
        "The diary for that period was produced.", "Much of what followed is common ground.",
        "The telephone notes are in the agreed bundle.", "Later events may be taken from the papers.",
        "What was said at the time is on record.", "The minute book is a better guide than memory.",
        "The agreed chronology continues as follows.", "The messages exchanged over that winter were printed.",
        "The record of the discussions is full.", "One more set of papers has to be looked at.",
    ),
    "says": (
        "{X} accepted that the letter of {date} had been received.",
        "According to {X}, the sum of {amount} was never [in doubt|in issue].",
        "{X} pointed to the entry for {date}, which recorded a payment of {amount}.",
        "Much was made by {X} of the silence that followed.",
        "That, [in the opinion|in the view] of {X}, was enough to engage {statute}.",
        "{X} did not [regard|treat] the delay after {date} as significant.",
        "{X} [thought|considered] that {amount} was too much for what had been done at {place}.",
        "The figure of {amount} was, {X} said, a [guess|rough estimate] and no more.",
        "The notice of {date} was in the hands of {X} within a day.", "{X} could find nothing in {statute} to the contrary.",
        "There was no reply until {date}, and {X} [noted|observed] as much.",
        "{X} had been to {place} on {date} and had seen the state of the roof.",
        "A sum of {amount} had been set aside, and {X} knew of it.",
        "On {date} a draft was sent to {X}, who returned it unsigned.",
        "{X} took the simple view that a bargain is a bargain.",
        "None of this [troubled|surprised] {X}, to whom the books were open.",
        "If {statute} applied at all, it applied, {X} said, from {date}.",
        "{X} [described|mentioned] a conversation on {date} about the price.",
        "The invoice for {amount} had been checked by {X} line by line.",
        "Asked about the photographs, {X} [replied|answered] that they had been taken at {place}.",
        "The survey of {date} [carried|had] little weight with {X}.",
        "The reason, {X} explained, was that {amount} could not be raised in time.",
        "{X} went through the ledger page by page.",
        "{X} [doubted|questioned] whether {statute} had been drawn with such goods in mind.",
        "A second letter, dated {date}, reached {X} by hand.",
        "In a note of {date} {X} had written that the matter was closed.",
        "{X} was [firm|clear] that the goods had left {place} by {date}.",
        "The words of {statute} were read by {X} as they stand.",
        "A cheque for {amount} was shown to {X} and [recognised|identified].", "{X} drew attention to the missing pages.",
        "By {date}, {X} recalled, the water had reached the second step.",
        "To {X} the difference between {amount} and {amount} was a matter of arithmetic.",
        "{X} kept returning to the meeting at {place}.", "No one but {X} had a copy of the [agreement|memorandum] of {date}.",
        "The proposal to pay {amount} by instalments was put to {X}.", "{X} saw no conflict between the two clauses.",
        "The reading that {X} preferred would [leave|make] {statute} without effect.",
        "It was {X} who had counted the pallets on {date}.", "{X} [dealt|began] with the valuation of {amount}.",
        "Some of the entries were in the handwriting of {X}.",
        "{X} left it open whether {amount} or some lesser sum was the proper price.",
        "The message of {date} does not name {X} but was plainly meant for that address.",
        "The goods stood at {place} for a month before {X} heard of it.",
        "Both {statute} and the common law were mentioned by {X}.",
        "{X} [estimated|put] the loss at {amount}, spread over two seasons.",
        "On that footing, {X} went on, nothing turned on the events of {date}.",
        "The tide tables for {date} were produced by {X}.", "{X} remembered the [rain|fog] and little else.",
        "What had passed on {date} was, for {X}, the heart of the matter.", "{X} spoke of {amount} in cash.",
        "Only later did {X} learn that the doors at {place} had been left open.",
        "Under {statute}, as {X} understood it, time ran from {date}.", "{X} called the offer of {amount} [generous|fair].",
        "The keys were with {X} from {date}.", "A copy of {statute} lay on the table, and {X} referred to it.",
        "{X} gave no weight to the rumours.",
    ),
    "tells": (
        "{X} {verb} that {clause}.", "{lead} {X} {verb} that {clause}.", "{lead}, {X} {verb}, {clause}.",
        "{X}, {manner}, {verb} that {clause}.", "{X} {verb} only that {clause}.", "That {clause} is what {X} {verb}.",
        "{manner!}, {X} {verb} that {clause}.", "{X} first {verb} that {clause} and then that {clause}.",
        "What {X} {verb} was that {clause}.", "Though {clause}, {X} {verb} that {clause}.",
        "{X} also {verb} that {clause}, and no more.", "As {X} {verb}, {clause}.",
        "Since {clause}, {X} {verb} that {clause}.", "{X} never {verb} that {clause}.",
        "If {clause}, it was because, as {X} {verb}, {clause}.", "{lead} {X} {verb} that {clause}, but not that {clause}.",
    ),
    "role_tells": (
        "{X} {verb} that {clause}; such was the view of {who}.",
        "{X} {verb} that {clause}, which is all that came from {who}.",
        "{X} {verb} that {clause}, and {who} did not go further.", "That {clause} was, {X} {verb}, the position of {who}.",
        "{X} {verb} that {clause}. Nothing else was heard from {who}.",
        "For {who}, and on this one point, {X} {verb} that {clause}.",
        "{X} {verb} that {clause}: so ran the account of {who}.",
        "In this part of what {who} said about the {thing}, {X} {verb} that {clause}.",
        "{X}, {manner}, {verb} that {clause}, and there {who} left it.",
        "{X} {verb} that {clause}, and that was how {who} saw the {thing}.",
        "The {thing} apart, {who} said little, but at one stage {X} {verb} that {clause}.",
        "{X} {verb} that {clause}, to which {who} added nothing.",
        "{lead} {X} {verb} that {clause}, as was to be expected from {who}.",
        "On the {thing} {who} said two things: first that {clause}, and then, as {X} {verb}, that {clause}.",
        "{X} {verb} that {clause}. This again is what {who} said.",
        "The {thing} was not forgotten by {who}, for at the very end {X} {verb} that {clause}.",
    ),
    "authority_tells": (
        "In that case {X} {verb} that {clause}.", "{X} {verb} that {clause}, or so the report of {X.short} v {Y.short} has it.",
        "The report says that {X} {verb} that {clause}.", "In the case of {X.short} v {Y.short}, {clause}, and {X} {verb} that {clause}.",
        "{lead} {X} {verb} that {clause}, according to the report of the case.",
        "{X} {verb} that {clause}; but that was {X.short} v {Y.short} and not this case.",
        "The parties to that other case were not agreed, for {X} {verb} that {clause}.",
        "{X} {verb} that {clause}, and for that {X.short} v {Y.short} is still cited.",
        "{X} {verb} that {clause}, as all who have read {X.short} v {Y.short} will know.",
        "On the facts of {X.short} v {Y.short} it mattered that {clause}, as {X} {verb}.",
        "{X} {verb} that {clause}. So much for the facts of {X.short} v {Y.short}.",
        "{lead} {X} {verb} that {clause}, and the case was decided on that.", "{clause!}, or so {X} {verb} in the case of {X.short} v {Y.short}.",
        "{X} {verb} that {clause}, if the report of the decision can be trusted.",
        "All this comes from {X.short} v {Y.short}, where {clause} and {X} {verb} that {clause}.",
        "In {X.short} v {Y.short}, too, {X} {verb} that {clause}.",
    ),
    "verb": (
        "said", "accepted", "denied", "thought", "recalled", "insisted", "conceded", "maintained", "repeated", "suggested",
        "remembered", "confirmed", "supposed", "believed", "noted", "stressed", "admitted", "assumed", "agreed", "remarked",
        "feared", "expected", "understood", "replied", "saw", "held", "hoped", "added", "explained", "wrote", "observed",
        "claimed",
    ),
    "lead": (
        "In the end", "On this point", "With some hesitation", "When pressed", "From the beginning", "More than once",
        "In a letter of {date}", "By {date}", "On {date}", "After the visit to {place}", "As to the {thing}",
        "About the {thing}", "Having read {statute}", "Looking at {statute}", "Without the {thing}", "Before {date}",
        "Until {date}", "In spite of the {thing}", "Once the {thing} was {quality}", "Some time after {date}",
        "Over the {thing}", "Up to then", "With regard to {statute}", "At this stage", "Offered {amount}",
        "Asked for {amount}", "Under {statute}", "At {place}", "Because of the {thing}", "A week after {date}",
        "For want of {amount}", "Faced with the {thing}",
    ),
    "manner": (
        "with some force", "without much conviction", "rather late", "at the outset", "quite properly", "in plain words",
        "for the second time", "after a pause", "with a good deal of heat", "in passing", "on reflection",
        "at greater length", "for what it is worth", "all the same", "in so many words", "to be fair",
    ),
    "clause": (
        "the {thing} was {quality}", "{amount} had been paid for the {thing}", "the {thing} and the {thing} were {quality}",
        "nobody had asked for the {thing}", "the {thing} arrived on {date}", "the {thing} would cost {amount}",
        "the {thing} was left at {place}", "the {thing} fell within {statute}", "the {thing} of {date} was {quality}",
        "there was no {thing} before {date}", "a {quality} {thing} was worth {amount}", "both sides had seen the {thing}",
        "the {thing} could wait until {date}", "{amount} was a [fair|high|modest|proper] price",
        "{statute} said nothing about the {thing}", "the {thing} had always been {quality}", "it all depended on the {thing}",
        "the {thing} had been lost at {place}", "the bill of {date} came to {amount}", "time ran from {date}",
        "a {thing} like this was {quality}", "{statute} covered the {thing}", "the price was {amount}, with the {thing}",
        "the {thing} was still there on {date}", "the {thing} had nothing to do with the {thing}",
        "the {thing} was not {quality} enough", "nobody had been to {place} since {date}",
        "the {thing} was replaced on {date}", "{amount} would not pay for a {quality} {thing}",
        "the {thing} was seen on {date}", "the matter ended on {date}", "there were {2-90} such entries",
        "{place} was {quality}", "{place} was close to {place}", "{place}, with the {thing}, was worth {amount}",
        "{place} had been sold by {date}", "nothing was known of {place}", "{place} and the {thing} were {quality}",
        "the {thing} was not at {place}", "{place} had been empty since {date}",
    ),
    "meets": (
        "{X} and {Y} met at {place} on {date}.", "{X} wrote to {Y} on {date} and again a week later.",
        "On {date} {X} and {Y} walked over the ground together.", "{X} told {Y} that {amount} was the last word.",
        "Neither {X} nor {Y} kept a note.", "{X} asked {Y} for time until {date}.", "{Y} had by then heard from {X}.",
        "The talks between {X} and {Y} ended without a result.", "{X} shook hands with {Y} and left.",
        "{X} showed {Y} the figures, which came to {amount}.", "When {X} telephoned, {Y} was at {place}.",
        "{X} thanked {Y} for the message of {date}.", "{Y} reminded {X} of what had been said on {date}.",
        "What {X} offered was {amount}; {Y} made no answer.", "A lunch on {date} brought {X} and {Y} together.",
        "{X} copied the letter to {Y}.",
    ),
    "steps": (
        "The {court} gave directions on {date}.", "The file was transferred from the {court} under number {number}.",
        "Security for costs was fixed at {amount} and paid into court on {date}.",
        "An appeal, {number}, was withdrawn on {date}.", "The order of the {court} was sealed on {date}.",
        "A stay under {statute} was [refused|granted].", "The matter was listed in the {court} as {number}.",
        "On {date} the {court} ordered payment of {amount} on account.", "Case {number} was heard together with it.",
        "The {court} had declined jurisdiction on {date}.", "Disclosure was ordered under {statute} and took until {date}.",
        "The papers bear the number {number}.", "In the {court} the estimate of costs was {amount}.",
        "The hearing in the {court} lasted two days.", "Costs of {amount} were assessed, by order made in {number}.",
        "A reference to the {court} under {statute} came to nothing.",
        "There was a further hearing on {date} in the {court}.", "Interest under {statute} was claimed from {date}.",
        "The two sets of papers, {number} and {number}, were consolidated.", "Nothing was done between {date} and {date}.",
        "The {court} extended time until {date}.", "The trial fee of {amount} was paid late.",
        "An injunction was discharged by the {court}.", "The transcript in {number} runs to many pages.",
    ),
    "asides": (
        "The premises are on the north side of the road and have been empty for some years.",
        "Nothing turns on clause {2-28}({1-6}) of the contract.", "It was a wet season, as everybody agreed.",
        "There were {100-900} sacks in all, of which some {20-90} were damp.",
        "The vessel was the {ship}, built for the coasting trade.",
        "The photographs at page {10-400} of the bundle are not of good quality.", "I need not decide that point.",
        "The plan shows {place} and the yard behind it.",
        "That is the sort of dispute that should have been settled over a cup of tea.",
        "Trade custom was pleaded but not proved.", "The {ship} was then in dry dock and took no cargo.",
        "The handwriting is difficult, but the sense is plain.", "Paragraph {3-60} of the bundle index is wrong.",
        "One has to remember how small the place is.", "The machine had run for {300-9000} hours without a fault.",
        "These matters are not in dispute.", "The gate at {place} was kept locked at night.",
        "It is enough to say that tempers were lost.", "The weighbridge tickets, {12-95} of them, are all in order.",
        "The standard form was used, with clause {2-28} struck out.", "Of the {ship} nothing more was heard.",
        "I say no more about that.", "The rest is background.", "The temperature in the store was {2-9} degrees.",
        "The {thing} was {quality}.", "Nothing was said about the {thing} or the {thing}.",
        "A {quality} {thing} is one thing, a {quality} {thing} another.", "Of the {thing} there is no trace in the papers.",
        "The {thing} needs no comment.", "One may leave aside the {thing}, which was {quality}.",
        "It was a {quality} {thing}, by any standard.", "The {thing} raises no issue.",
    ),
    "finding": (
        "My conclusion on the {matter} can be stated at once: it {so}.", "On the evidence the {matter} {so}.",
        "I find that the {matter} {so}.", "It follows that the {matter} {so}.", "Taken as a whole the {matter} {so}.",
        "In my judgment the {matter} {so}.", "The {matter}, I hold, {so}.", "As to the {matter}, it {so}.",
        "The {matter} {so}, for the reasons given.", "On the facts as found the {matter} {so}.",
        "The burden of proof decides it: the {matter} {so}.", "There is no way round it: the {matter} {so}.",
        "In the result the {matter} {so}.", "That being so, the {matter} {so}.", "The {matter} {so} on every ground.",
        "Where this leads is that the {matter} {so}.",
    ),
    "closes": (
        "An order will be drawn up accordingly and lodged by {date}.",
        "The sums due are to be agreed, failing which the parties may apply under {statute} by {date}.",
        "Costs will be dealt with at a hearing on {date}.",
        "There will be interest under {statute} from {date}, and a payment on account of costs of {amount}.",
        "The account is to be taken in the {court} on {date}.",
        "I direct that the money in court, {amount}, be held until {date}.",
        "This judgment is to be placed on the file in {number}. Costs are reserved to {date}.",
        "The parties have until {date} to agree the form of order.",
    ),
}

# Tables every split may use whole.
COMMON: dict[str, tuple[str, ...]] = {
    "ship": ("{town}", "{female} {town}"),
    "place": ("{1-99} {town} [Road|Street|Lane]", "{town} [Wharf|Mill|House|Farm]"),
    "person": ("Mr #{male} <{surname}>", "Mr #{male} <{surname}>", "Ms #{female} <{surname}>", "Ms #{female} <{surname}>"),
    "party": ("{person}", "{person}", "<{surname} {trade}> [Limited|plc|LLP]"),
    "court": ("{town} {court_sort} Court", "{court_sort} Court at {town}", "High Court, {town} {court_sort} Registry"),
    "number": ("{code}-{1987-2023}-{0001-9999}", "{code}/{101-9999}/{1987-2023}", "{1987-2023} {code} {101-9999}"),
    "month": (
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ),
    "date": ("{1-28} {month} {year}",),
    "amount": ("£{,1000-950000}", "£{,1000-950000}", "£{,1000-99999}.{10-99}", "{,1000-95000} pounds"),
    "act": ("{act_name} Act {1894-2015}",),
    "statute": ("section {1-90} of the {act}", "section {1-90}({1-6}) of the {act}", "the #{act}"),
    "scene": ("claimant", "defendant", "witness", "counsel", "judge", "authority", "authority", "procedure"),
    "caption": (
        "{head}\n\n{sides}\n\n{bench}\n\n{appearances}\n\n{dates}",
        "{head}\n\n{bench}\n\n{dates}\n\n{sides}\n\n{appearances}", "{head}\n\n{dates}\n{bench}\n\n{sides}\n\n{appearances}",
        "{head}\n\n{sides}\n\n{dates}\n\n{bench}\n\n{appearances}",
    ),
    "remark": (
        "{about} the {thing} I say nothing.", "{adverb}, the {thing} was {quality}.",
        "{since} the {thing} was {quality}, the {thing} was not.", "{this} {thing} was {quality}.",
        "{about} the {thing} there is no more to say.", "{adverb} the {thing} was {done}.",
    ),
    "about": words(
        "About Against Besides Beyond By Concerning Despite Following For From In Of On Over Regarding To Under Until Upon "
        "With Without"
    ),
    "adverb": words(
        "Again Also Certainly Clearly Even Finally First Fortunately Here However Indeed Later Moreover Now Often Oddly Once "
        "Only Perhaps Plainly Rather So Sometimes Soon Still Then There Therefore Thus Yet"
    ),
    "since": (
        "Although", "As", "Because", "Even if", "If", "Once", "Since", "Though", "Unless", "Until", "When", "Where",
        "Whereas", "While",
    ),
    "this": (
        "A", "Another", "Any", "Each", "Either", "Every", "His", "Its", "Much of the", "My", "Neither", "No", "None of the",
        "One", "Some of the", "Such a", "That", "The", "Their", "This", "What", "Whatever", "Which", "Nobody's", "Only one",
        "Taken as such, the",
    ),
    "done": words(
        "added assessed brought checked claimed consolidated crossed decided denied discussed established fixed found given "
        "issued learnt left listed lost made mentioned noted observed occupied paid placed produced proved read recalled "
        "recorded refused repeated seen shown sought stated summarised taken tested torn wanted withdrawn"
    ),
    "signature": ("{J0.full}\nJudge", "Signed: {J0.full}, judge", "(Signed by the judge) {J0.full}"),
    "male": (
        "Adam", "Edward", "Martin", "Hugh", "Oliver", "Peter", "Simon", "Victor", "George", "Leonard", "Daniel", "Julian",
        "Felix", "Walter", "Arthur", "Graham", "Philip", "Roger", "Conrad", "Samuel", "Duncan", "Neil", "Stephen", "Rupert",
        "Albert", "Basil", "Charles", "Dennis", "Ernest", "Francis", "Gilbert", "Harold", "Ivan", "James", "Kenneth", "Lewis",
        "Maurice", "Norman", "Oscar", "Patrick", "Ralph", "Sidney", "Thomas", "Vincent", "William", "Aubrey", "Clive",
        "Derek",
    ),
    "female": (
        "Alice", "Clara", "Helen", "Joan", "Margaret", "Nora", "Ruth", "Teresa", "Diana", "Eleanor", "Beatrice", "Frances",
        "Harriet", "Ursula", "Judith", "Sylvia", "Laura", "Miriam", "Agnes", "Rosalind", "Edith", "Hester", "Pamela", "Olive",
        "Ada", "Brenda", "Celia", "Dorothy", "Emma", "Florence", "Gillian", "Hilda", "Irene", "Janet", "Katherine", "Lucy",
        "Mabel", "Naomi", "Phoebe", "Rachel", "Sarah", "Thelma", "Una", "Vera", "Winifred", "Yvonne", "Barbara", "Cecily",
    ),
    "trade": (
        "Freight", "Timber", "Cold Stores", "Engineering", "Shipping", "Estates", "Grain", "Foundry", "Textiles", "Quarries",
        "Printing", "Motors", "Dairies", "Instruments", "Warehousing", "Marine", "Foods", "Glass", "Paper", "Steel",
        "Transport", "Properties", "Chemicals", "Ceramics", "Electrical", "Fisheries", "Plastics", "Mining", "Salvage",
        "Lighting", "Joinery", "Bakeries", "Insurance", "Homes", "Hotels", "Tools", "Packaging", "Tyres", "Nurseries",
        "Pumps",
    ),
    "court_sort": (
        "County", "Commercial", "Mercantile", "District", "Chancery", "Admiralty", "Crown", "Business", "Probate", "Circuit",
        "Land", "Companies", "Patents", "Revenue", "Building", "Borough",
    ),
    "them_claimant": ("the claimants",),
    "them_defendant": ("the defendants",),
    "them_witness": ("the witnesses", "the witnesses for the [claimants|defendants]", "the witnesses called at trial"),
    "them_counsel": ("counsel", "counsel for the [claimants|defendants]", "counsel in the case"),
    "them_judge": ("the judges below", "the judges of first instance", "the judges who dealt with the case before"),
    "who_claimant": ("the claimants", "the claimants", "the claimants' side"),
    "who_defendant": ("the defendants", "the defendants", "the defendants' side"),
    "who_witness": ("the witnesses", "the witnesses for the [claimants|defendants]", "the other witnesses"),
    "who_counsel": ("counsel", "counsel for the [claimants|defendants]", "counsel on both sides"),
    "who_judge": ("the judge below", "the judge at first instance", "the judges in the court below"),
    "matter_claim": ("claim",),
    "matter_counterclaim": ("counterclaim",),
    "so_True": ("succeeds", "is upheld", "is allowed", "is well founded", "is proved"),
    "so_False": ("fails", "is rejected", "is dismissed", "is unfounded", "is unproved"),
    "thing": words(
        "bargain barge bill building bundle cargo charter cheque conclusion contract copy course deck delivery deposit diary "
        "disclosure discussion dock draft drain farm fault fence figure finding floor foundry gate guarantee heading key "
        "lease ledger letter licence list load lock lunch machine map meeting memorandum message month mortgage motor note "
        "notice pallet period permit photograph pipe plan pledge policy proposal pump purchase quarrel receipt record reply "
        "report reserve roof rule sample schedule season security shed signature stake step store survey switch table tank "
        "textbook ticket tide tool transcript truck valuation version wall warning weighbridge well wheel window wire yard"
    ),
    "quality": words(
        "bad bare brief broken careful careless cheap clear complete correct costly crowded damaged damp different difficult "
        "dirty doubtful dry fair false familiar faulty firm full genuine good heavy large late light long loose modest "
        "narrow new plain poor private proper rare ready reasonable regular rough safe serious short similar simple slow "
        "small smooth sound special strange strict strong sufficient tidy trivial true useful vague valid weak wet worn "
        "wrong"
    ),
    "heading_early": ("Introduction", "Background", "The dispute"),
    "heading_middle": ("The law and the evidence", "Matters in issue", "Discussion"),
    "heading_far": ("The chronology", "What the papers show", "The exchanges"),
    "heading_late": ("Remaining questions", "The other points", "Further discussion"),
    "heading_end": ("Disposition", "Conclusion", "Result"),
}
