"""Chinese words and phrasings of the embedded corpus, in the template language of `longdoc.app.corpus.writer`."""

from longdoc.app.corpus.writer import words

_GIVEN = "建志晓文玉春永秀国海德淑丽俊明光荣庆福祥兴红雪慧敏佳思雨子浩宇泽嘉欣怡梓晨凯鹏飞龙云霞芳兰桂振宏伟立学忠树长少宝金银铁石"
_GIVEN_END = "华强军平英杰刚勇辉斌娟萍玲燕静琴峰超磊波涛洁颖莉娜"
_BRANDS, _BRAND_ENDS = "恒鑫宏瑞盛佰华鼎凯腾锦隆昊润泓晟旭众骏源汇博卓煜川诚硕联铭", "达泰通发丰茂远利源"
_CITIES, _CITY_ENDS = "临青平南新海和永长龙云清泰武昌兴通丰顺东同广庆怀绥津涌嘉淮", "州阳城安江宁原水山"
_PROVINCES = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼台"
_LAWS = words(
    "合同法 物权法 担保法 公司法 招标投标法 侵权责任法 建筑法 海商法 保险法 票据法 劳动合同法 合伙企业法 产品质量法 农村土地承包法 道路交通安全法 消费者权益保护法 电子商务法 拍卖法 铁路法 港口法 种子法 仲裁法 商标法 民事诉讼法"
)

# Every table here is dealt out to the splits item by item: no split sees a name or a phrasing of another. Where names are put
# together of parts, the number of last parts is odd, so that each part comes to every split.
DEALT: dict[str, tuple[str, ...]] = {
    "given": (*_GIVEN, *(first + second for first in _GIVEN for second in _GIVEN_END)),
    "brand": tuple(first + second for first in _BRANDS for second in _BRAND_ENDS),
    "city": tuple(first + second for first in _CITIES for second in _CITY_ENDS),
    "province": tuple(f"{province}{number:02d}" for province in _PROVINCES for number in range(1, 30)),
    "law_name": tuple(law + kind for law in _LAWS for kind in ("", "实施条例", "实施细则", "司法解释", "补充规定")),
    "head": (
        "{court}\n民事判决书\n{number}", "民事判决书\n\n{number}\n{court}", "{court}\n判决书\n\n案号：{number}",
        "{number}\n{court}民事判决书", "{court}\n{number}\n民事判决书", "判决书（{number}）\n\n审理法院：{court}",
        "{court}　{number}\n\n民事判决书", "中国裁判文书\n{court}\n案件编号{number}",
    ),
    "sides": (
        "原告：{P0.full}\n原告：{P1.full}\n被告：{D0.full}\n被告：{D1.full}",
        "原告{P0.full}、{P1.full}。\n被告{D0.full}、{D1.full}。",
        "当事人\n原告（反诉被告）：{P0.full}、{P1.full}\n被告（反诉原告）：{D0.full}、{D1.full}",
        "第一原告：{P0.full}\n第二原告：{P1.full}\n\n第一被告：{D0.full}\n第二被告：{D1.full}",
        "原告\n{P0.full}\n{P1.full}\n\n被告\n{D0.full}\n{D1.full}", "原告：{P0.full}；{P1.full}\n被告：{D0.full}；{D1.full}",
        "原告一：{P0.full}\n原告二：{P1.full}\n被告一：{D0.full}\n被告二：{D1.full}",
        "被告：{D0.full}，{D1.full}\n原告：{P0.full}，{P1.full}",
    ),
    "bench": (
        "审判员：{J0.full}", "审判员{J0.full}独任审理", "审判员\n{J0.full}", "承办法官：{J0.full}", "主审法官{J0.full}",
        "独任审判员　{J0.full}", "合议庭成员审判员{J0.full}", "本案法官：{J0.full}",
    ),
    "appearances": (
        "原告的委托诉讼代理人：{C0.full}、{C1.full}\n被告的委托诉讼代理人：{C2.full}",
        "二原告的代理人：{C0.full}，{C1.full}，均系律师。\n二被告的代理人：{C2.full}。",
        "诉讼代理人\n原告方：{C0.full}、{C1.full}\n被告方：{C2.full}",
        "原告委托的代理人：{C0.full}；{C1.full}\n被告委托的代理人：{C2.full}",
        "代理人\n代理原告：{C0.full}、{C1.full}\n代理被告：{C2.full}",
        "委托代理人：{C0.full}、{C1.full}（代理原告）；{C2.full}（代理被告）",
        "代理律师：{C0.full}、{C1.full}（原告方）\n代理律师：{C2.full}（被告方）",
        "原告诉讼代理人：{C0.full}，{C1.full}\n被告诉讼代理人：{C2.full}",
    ),
    "dates": (
        "开庭日期：{date}、{date}", "于{date}和{date}公开开庭", "开庭时间：{date}；{date}", "立案：{date}　开庭：{date}",
        "审理日期{date}，{date}", "{date}受理，{date}开庭", "庭审日期：{date}、{date}", "受理日期：{date}\n开庭日期：{date}",
    ),
    "introduces": (
        "本案系{subject}引发的争议。", "本诉标的为{amount}，起因是{subject}。", "{date}，本院收到起诉，标的{amount}。",
        "双方的分歧在于{subject}，另有反诉。", "本院一并审理本诉与反诉，均涉及{subject}。",
        "本诉请求{amount}，反诉请求{amount}。", "庭审围绕{subject}展开。",
        "自{date}起，{subject}一事由小变大，涉及{amount}。",
    ),
    "named": (
        "{them}是{X.full}和{Y.full}。", "{X.full}、{Y.full}是{them}。", "{them}：{X.full}；{Y.full}。",
        "这里所说的{them}，指{X.full}和{Y.full}。", "{them}的名字是{X.full}和{Y.full}。",
        "{them}列举如下：{X.full}，{Y.full}。", "案卷记载{X.full}和{Y.full}为{them}。",
        "说到{them}，应当提到{X.full}与{Y.full}。", "作为{them}的有{X.full}和{Y.full}。",
        "{them}{X.full}、{Y.full}的情况无须介绍。", "名单上的{them}为{X.full}、{Y.full}。",
        "{X.full}与{Y.full}一样，都属于{them}。", "{them}包括{X.full}，还有{Y.full}。",
        "自始至终，{X.full}和{Y.full}都是{them}。", "下文把{X.full}和{Y.full}称为{them}。",
        "{them}可以点名：{X.full}，以及{Y.full}。", "{them}当中有{X.full}和{Y.full}。",
        "代表{them}的是两个名字，{X.full}和{Y.full}。", "{X.full}是{them}之一，{Y.full}是另一名。",
        "在本案里{them}系{X.full}、{Y.full}。", "查{them}名单，有{X.full}、{Y.full}。", "此处的{them}为{X.full}和{Y.full}。",
        "{X.full}；{Y.full}：以上为{them}。", "{X.full}和{Y.full}均列为{them}。",
    ),
    "witness_opens": (
        "下面是证人证言。", "证人的陈述摘录如下。", "证人席上有如下陈述。", "几名证人先后宣读了保证书。",
        "对证人的询问用了一整天。", "各证人所作证言前后一致。", "关于证言，每名证人都有书面材料。",
        "本院还听取了其他证人的证言，各人记忆[尚可|不一]。",
    ),
    "counsel_opens": (
        "双方代理律师均提交了代理词。", "各方代理人对法律适用看法不同。", "代理人的书面意见已经附卷，部分又当庭重述。",
        "代理律师的书面提纲涉及面很广。", "最后陈述时，代理人的意见已经集中。", "代理人提出，这一点早有先例。",
        "在法律问题上，[原告|被告]的代理律师作了说明。", "代理律师在总结发言里换了角度。",
    ),
    "judge_opens": (
        "原审法官的判决写得很细。", "一审由一名资深审判员审理。", "原审审判员的[认定|结论]如下。", "原审法官的理由不长。",
        "本次开庭以前，案卷曾由另一名法官经办。", "变更诉讼请求的申请由法官书面审查。", "下级法院的审判员看法不同。",
        "审判员就先决问题当庭作了裁定。",
    ),
    "subject": (
        "一批冷冻海鲜的仓储", "厂房租赁", "两艘驳船的租用", "印刷设备的维修", "奶牛买卖", "机器抵押借款", "海堤施工",
        "采石场合伙", "代理合同的解除", "农田承包", "钢管供应", "河道疏浚工程", "三台塔吊的租赁", "铸造厂的转让", "粮仓保险",
        "种薯的运输",
    ),
    "role_opens": (
        "先看{who}的说法。", "{who}是这样讲的。", "下面转述{who}的意见。", "按照{who}的陈述，经过如下。",
        "{who}对此讲得[简短|清楚|含糊]。", "关于{thing}，{who}持如下看法。", "接着看{who}眼中的{thing}。",
        "{who}对{thing}作了[详细|简单]的说明。", "{thing}一节，{who}用了不少篇幅。", "{who}就{thing}要讲的话可以概括如下。",
        "在{who}看来，{thing}最为要紧。", "{who}多次讲到{thing}。", "[细读|粗看]之下，{who}无非讲了这些。",
        "{who}前后的讲法有过变化。", "现在应当听听{who}怎样讲{thing}。", "{who}的话用几行字就能记下。",
        "再有便是{who}对{thing}的态度。", "{who}讲了{thing}，也讲了{thing}。", "材料中记有{who}的话，内容[完整|简略]。",
        "随后{who}谈到{thing}。", "最好的概括来自{who}。", "{who}从{thing}讲起。", "{who}关于{thing}的话[不多|很直白]。",
        "接下来是{who}，其最看重{thing}。",
    ),
    "authority_opens": (
        "参考案例首推{X.short}诉{Y.short}一案，该案常被引用。", "双方都提到{X.short}诉{Y.short}案的判决。",
        "有人援引{X.short}诉{Y.short}案，作为类似判例。", "公报刊登的{X.short}诉{Y.short}案据说与此相同。",
        "同样的问题出现在{X.short}诉{Y.short}这一著名案例里，该案的事实需要交代。",
        "{X.short}诉{Y.short}案以来，已有一系列判例。", "教科书在这一章讨论{X.short}诉{Y.short}案，该案案情特殊。",
        "{X.short}诉{Y.short}一案的判例得出了相反的结果。", "公报案例{X.short}诉{Y.short}可资参考。",
        "指导性案例{X.short}诉{Y.short}案，关键在于书证。", "这一规则出自较早的判例{X.short}诉{Y.short}案。",
        "{X.short}诉{Y.short}案与其他公报案例不易协调。", "最接近的先例是{X.short}诉{Y.short}案。",
        "另有一个公报案例{X.short}诉{Y.short}案，结论不同。", "作为先例提出的是{X.short}诉{Y.short}案，案情如下。",
        "已公布的案例中只需介绍{X.short}诉{Y.short}案。",
    ),
    "procedure_opens": (
        "本案的诉讼经过如下。", "需要说明本案是怎样进入审理的。", "本案历时较长。", "本案先后经过几个阶段。",
        "本案进行过的程序可以列举。", "接下来交代本案的程序。", "本案的审理过程并不顺利。",
        "本案如何走到开庭这一步，应予说明。", "本案中曾作出多项裁定。", "本案的经过与诉讼费有关。",
        "本案当中有过几次程序性申请。", "本案程序方面情况简单。", "本案并非首次起诉。", "对本案诉讼的进行还要补充一句。",
        "本案卷宗显示如下。", "本案前期的程序是这样的。",
    ),
    "far_opens": (
        "当时的笔录记下了各人的话。", "其后的经过可以补充完整。", "现在谈到商讨此事的几次会面。", "往来信件经各方同意提交。",
        "商谈留有纪要。", "余下的是各人之间的交涉。", "那一时期的日记已经出示。", "此后的许多情况没有争议。",
        "电话记录装订在材料中。", "后来的事情见于书面材料。", "当时所讲的话都有记载。", "会议记录比记忆可靠。",
        "时间表接着写道。", "那年冬天往来的短信已经打印。", "商讨的记录很完整。", "还有一组材料要看。",
    ),
    "says": (
        "{X}承认收到过{date}的函件。", "{X}表示，{amount}这个数目[从无疑问|没有争议]。",
        "{X}指出，{date}的账页记有一笔{amount}的付款。", "{X}多次强调对方没有回音。", "在{X}看来，这已经足以适用{statute}。",
        "{X}并不认为{date}以后的拖延有多严重。", "{X}觉得，为{place}的活计付{amount}太多了。",
        "{amount}只是{X}的[估计|粗略计算]。", "{date}的通知次日就到了{X}手里。", "{X}没有在{statute}里找到相反的规定。",
        "直到{date}都没有答复，{X}也[注意到|提到]这一点。", "{X}于{date}去过{place}，看到屋顶的状况。",
        "预留的{amount}，{X}是知道的。", "{date}有一份草稿送给{X}，退回时没有签字。", "{X}的看法很简单，说定了就是说定了。",
        "对此{X}并不[意外|担心]，账目一直公开。", "{X}说，即使适用{statute}，也应当从{date}算起。",
        "{X}[描述|提起]过{date}关于价格的谈话。", "{amount}的发票由{X}逐行核对。",
        "问到照片时，{X}[回答|答复]说是在{place}拍的。", "{date}的勘验对{X}来说[分量不重|意义不大]。",
        "{X}解释，原因是{amount}一时筹不到。", "{X}把账本一页一页翻过。", "{X}[怀疑|质疑]{statute}是否针对这类货物。",
        "{date}的第二封信由专人交给{X}。", "{X}在{date}的便条里写道，此事已了。",
        "{X}[确信|肯定]货物在{date}以前已经离开{place}。", "{X}按字面理解{statute}。",
        "一张{amount}的支票拿给{X}，当场[认出|辨认]。", "{X}提请注意缺页。", "{X}回忆，到{date}水已经漫上第二级台阶。",
        "对{X}而言，{amount}与{amount}之差只是算术。", "{X}反复讲到在{place}的那次会面。",
        "除{X}外，无人持有{date}的[协议|备忘录]。", "分期支付{amount}的方案向{X}提出过。", "{X}认为两个条款并不矛盾。",
        "照{X}的读法，{statute}就[落空|失去意义]了。", "{date}清点托盘的正是{X}。", "{X}[谈到|先讲]{amount}的估价。",
        "部分账目出自{X}的笔迹。", "{X}没有说明合理价款是{amount}还是更少。",
        "{date}的短信没有写{X}的名字，但显然是发给这个号码的。", "货物在{place}放了一个月，{X}才听说。",
        "{X}既提到{statute}，也提到交易习惯。", "{X}[估算|算得]损失为{amount}，分摊在两个季度。",
        "{X}接着说，这样一来{date}的事就无关紧要。", "{date}的潮汐表由{X}提供。", "{X}只记得当时[下雨|有雾]。",
        "{date}发生的事，在{X}心里最要紧。", "{X}讲到{amount}现金。", "后来{X}才知道{place}的门一直开着。",
        "根据{statute}，{X}理解期限从{date}开始。", "{X}称{amount}的报价[公道|优厚]。", "钥匙自{date}起在{X}手里。",
        "桌上放着{statute}，{X}引用过。", "{X}不理会传言。",
    ),
    "tells": (
        "{X}{verb}{clause}。", "{lead}，{X}{verb}{clause}。", "{lead}，{clause}，这是{X}的话。",
        "{X}{manner}{verb}{clause}。", "{X}只{verb}{clause}。", "{clause}，{X}这样{verb}。", "{X}{verb}，{clause}。",
        "{X}先{verb}{clause}，后又{verb}{clause}。", "{X}所{verb}的是{clause}。", "虽然{clause}，{X}还是{verb}{clause}。",
        "{X}也{verb}{clause}，仅此而已。", "正如{X}所{verb}，{clause}。", "既然{clause}，{X}便{verb}{clause}。",
        "{X}从未{verb}{clause}。", "如果说{clause}，照{X}的话，那是因为{clause}。",
        "{lead}，{X}{verb}{clause}，但没有{verb}{clause}。",
    ),
    "role_tells": (
        "{X}{verb}{clause}，这就是{who}的看法。", "{X}{verb}{clause}，{who}讲的仅此一句。",
        "{X}{verb}{clause}，{who}没有再往下讲。", "{clause}，{X}这样{verb}，也是{who}的立场。",
        "{X}{verb}{clause}。此外没有听到{who}讲别的。", "{who}在这一点上有话要讲，{X}{verb}{clause}。",
        "{X}{verb}{clause}，{who}的陈述就是如此。", "在{who}关于{thing}的话里，{X}{verb}{clause}。",
        "{X}{manner}{verb}{clause}，{who}到此为止。", "{X}{verb}{clause}，{who}眼里的{thing}便是这样。",
        "除{thing}外{who}讲得不多，但有一次{X}{verb}{clause}。", "{X}{verb}{clause}，{who}没有补充。",
        "{lead}，{X}{verb}{clause}，这出自{who}并不奇怪。",
        "{who}对{thing}讲了两点：一是{clause}；二是如{X}所{verb}，{clause}。", "{X}{verb}{clause}。这仍是{who}的话。",
        "{who}没有忘记{thing}，到了最后{X}{verb}{clause}。",
    ),
    "authority_tells": (
        "该案中{X}{verb}{clause}。", "{X}{verb}{clause}，{X.short}诉{Y.short}案是这样记载的。", "据该案公报，{X}{verb}{clause}。",
        "在{X.short}诉{Y.short}案里，{clause}，{X}也{verb}{clause}。", "{lead}，{X}{verb}{clause}，见该案判决。",
        "{X}{verb}{clause}；但那是{X.short}诉{Y.short}案，不是本案。", "该案当事人看法不一，{X}{verb}{clause}。",
        "{X}{verb}{clause}，{X.short}诉{Y.short}案因此至今被引用。", "{X}{verb}{clause}，读过{X.short}诉{Y.short}案的人都知道。",
        "就{X.short}诉{Y.short}案的事实而言，{clause}，如{X}所{verb}。", "{X}{verb}{clause}。{X.short}诉{Y.short}案的事实就是这些。",
        "{lead}，{X}{verb}{clause}，该案据此判决。", "{clause}，{X}在{X.short}诉{Y.short}案中如此{verb}。", "{X}{verb}{clause}，这是公报案例的记载。",
        "以上出自{X.short}诉{Y.short}案，其中{clause}，{X}{verb}{clause}。", "{X.short}诉{Y.short}案亦然，{X}{verb}{clause}。",
    ),
    "verb": (
        "表示", "承认", "否认", "认为", "回忆", "坚持", "同意", "主张", "重申", "提出", "记得", "确认", "估计", "相信",
        "注意到", "强调", "供述", "推测", "赞同", "谈到", "担心", "预料", "理解", "答复", "看到", "判断", "希望", "补充",
        "解释", "写明", "发现", "声称",
    ),
    "lead": (
        "最后", "在这一点上", "犹豫之后", "经追问", "从一开始", "不止一次", "在{date}的信中", "到{date}", "{date}",
        "去过{place}以后", "至于{thing}", "关于{thing}", "读过{statute}以后", "对照{statute}", "没有{thing}", "{date}以前",
        "直到{date}", "尽管有{thing}", "{thing}{quality}以后", "{date}过后不久", "为了{thing}", "在那之前", "就{statute}而言",
        "在这一阶段", "面对{amount}的要价", "付出{amount}之后", "根据{statute}", "在{place}", "由于{thing}", "{date}之后一周",
        "因缺少{amount}", "拿到{thing}",
    ),
    "manner": (
        "有力地", "勉强地", "很晚才", "一开始就", "恰当地", "直白地", "再次", "停顿片刻后", "激动地", "顺便", "考虑后",
        "更详细地", "姑且", "仍然", "明确地", "公允地",
    ),
    "clause": (
        "{thing}{quality}", "已经为{thing}付了{amount}", "{thing}和{thing}都{quality}", "没有人要过{thing}",
        "{thing}是{date}到的", "{thing}要花{amount}", "{thing}留在{place}", "{thing}属于{statute}的范围",
        "{date}的{thing}{quality}", "{date}以前没有{thing}", "这样的{thing}值{amount}", "双方都看过{thing}",
        "{thing}可以等到{date}", "{amount}是[公道|偏高]的价钱", "{statute}没有提到{thing}", "{thing}一向{quality}",
        "一切取决于{thing}", "{thing}在{place}丢了", "{date}的账单共计{amount}", "期限从{date}算起", "这种{thing}{quality}",
        "{statute}涵盖{thing}", "价款{amount}，连同{thing}", "{date}{thing}还在", "{thing}与{thing}无关", "{thing}不够齐备",
        "{date}以后没有人去过{place}", "{thing}在{date}更换过", "{amount}买不到这种{thing}", "{date}有人看见{thing}",
        "此事在{date}了结", "这样的记录有{2-90}条", "{place}{quality}", "{place}离{place}很近",
        "{place}连同{thing}值{amount}", "{place}在{date}前已经卖掉", "没有人知道{place}", "{place}和{thing}都{quality}",
        "{thing}不在{place}", "{place}自{date}起空着",
    ),
    "meets": (
        "{date}，{X}与{Y}在{place}见面。", "{X}于{date}写信给{Y}，一周后又写了一封。", "{date}{X}和{Y}一起看了现场。",
        "{X}对{Y}说，{amount}是最后的数目。", "{X}和{Y}都没有记录。", "{X}请{Y}宽限到{date}。", "那时{Y}已经听{X}说过。",
        "{X}同{Y}的商谈没有结果。", "{X}与{Y}握手后离开。", "{X}把总计{amount}的数字给{Y}看。", "{X}打电话时，{Y}在{place}。",
        "{X}感谢{Y}在{date}发来短信。", "{Y}提醒{X}不要忘了{date}讲过的话。", "{X}出价{amount}；{Y}没有回答。",
        "{date}的一顿午饭让{X}和{Y}坐到一起。", "{X}把信抄送{Y}。",
    ),
    "steps": (
        "{court}于{date}组织证据交换。", "案卷由{court}移送，编号{number}。", "担保金定为{amount}，于{date}缴纳。",
        "{number}上诉案于{date}撤回。", "{court}的裁定于{date}送达。", "依据{statute}提出的中止申请[未获准许|得到准许]。",
        "{court}以{number}立案。", "{date}，{court}裁定先予支付{amount}。", "{number}一并审理。",
        "{court}曾于{date}裁定不予受理。", "依照{statute}责令提交证据，至{date}完成。", "材料上的编号是{number}。",
        "在{court}预交的费用是{amount}。", "{court}的庭审持续两天。", "{number}裁定确定费用为{amount}。",
        "依{statute}向{court}提出的请示没有下文。", "{date}在{court}又开过一次庭。", "依据{statute}主张的利息自{date}起算。",
        "{number}与{number}两案合并。", "{date}至{date}之间没有进展。", "{court}将期限延长到{date}。",
        "{amount}的受理费缴纳较晚。", "保全措施由{court}解除。", "{number}的笔录篇幅很长。",
    ),
    "asides": (
        "房屋位于路北，空置多年。", "合同第{2-28}.{1-6}款与此无关。", "各方都说那一季雨水多。",
        "共有{100-900}袋，其中{20-90}袋受潮。", "船名“{ship}”，用于沿海运输。", "证据册第{10-400}页的照片不清楚。",
        "这一点无须认定。", "图纸标明{place}及其后院。", "这种争议本来喝杯茶就能解决。", "交易习惯虽有主张，但没有证明。",
        "“{ship}”轮当时在坞内，没有装货。", "字迹潦草，意思清楚。", "目录第{3-60}项有误。", "应当想到地方很小。",
        "机器已运转{300-9000}小时，没有故障。", "以上没有争议。", "{place}的大门夜间上锁。", "只需说当时都动了气。",
        "过磅单共{12-95}张，均无问题。", "使用的是标准文本，第{2-28}条被划去。", "此后再无“{ship}”轮的消息。",
        "对此不再多说。", "其余都是背景。", "库内温度为{2-9}℃，设备型号为KX{100-900}。", "{thing}{quality}。",
        "没有人提到{thing}或{thing}。", "{thing}是一回事，{thing}是另一回事。", "材料里找不到{thing}。", "{thing}无须评论。",
        "{thing}{quality}，可以放在一边。", "无论怎样看，{thing}都{quality}。", "{thing}没有争议。",
    ),
    "finding": (
        "关于{matter}，结论可以直接说明：{so}。", "从证据看，{matter}{so}。", "本院认定{matter}{so}。",
        "由此可见，{matter}{so}。", "总的来看，{matter}{so}。", "本院的意见是{matter}{so}。", "{matter}经审查{so}。",
        "至于{matter}，{so}。", "{matter}{so}，理由已如上述。", "依据查明的事实，{matter}{so}。",
        "举证责任决定了结果：{matter}{so}。", "没有别的结论：{matter}{so}。", "结果是{matter}{so}。",
        "既然如此，{matter}{so}。", "{matter}的各项理由均{so}。", "归结起来，{matter}{so}。",
    ),
    "closes": (
        "据此制作文书，于{date}前送达。", "应付款项由各方核对，逾期可依{statute}于{date}前申请。",
        "诉讼费用于{date}另行处理。", "依据{statute}，利息自{date}起计算，先付费用{amount}。", "账目由{court}于{date}核算。",
        "已交法院的{amount}保留到{date}。", "本判决附入{number}卷宗，费用问题留待{date}。", "各方应于{date}前商定履行方式。",
    ),
}

# Tables every split may use whole.
COMMON: dict[str, tuple[str, ...]] = {
    "scene": ("claimant", "defendant", "witness", "counsel", "judge", "authority", "authority", "procedure"),
    "family": tuple("王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜"),
    "name": ("{family}{given}",),
    "person": ("<{name}>",),
    "party": ("<{name}>", "<{name}>", "{city}<{brand}>{trade}有限公司"),
    "ship": ("{brand}{1-99}", "{city}{101-999}"),
    "place": ("{city}{road}路{1-299}号", "{city}{road}[码头|仓库|市场]"),
    "court": ("{city}市{district}区人民法院", "{city}市中级人民法院", "{city}县人民法院"),
    "number": ("（{year}）{province}民[初|终|再]{101-9999}号", "（{year}）{province}{11-29}民[初|终]{101-9999}号"),
    "date": ("{year}年{1-12}月{1-28}日",),
    "amount": ("{,1000-950000}元", "人民币#{1000-950000}元", "{10-95}.{1-9}万元", "{1000-99999}.{10-99}元"),
    "digit": tuple("一二三四五六七八九"),
    "tens": ("十", "二十", "三十", "四十", "五十", "六十", "七十", "八十", "九十"),
    "article": ("{tens}{digit}", "一百{digit}十{digit}", "二百{digit}十", "{tens}"),
    "law": ("《{law_name}》", "《中华人民共和国{law_name}》"),
    "statute": ("{law}第{article}条", "{law}第{article}条第{digit}款", "{law}"),
    "trade": (
        "贸易", "物流", "机械制造", "建筑工程", "食品", "纺织", "电子科技", "装饰", "钢铁", "农业开发", "化工", "船务",
        "仓储", "印刷", "汽车销售", "木业",
    ),
    "district": (
        "城关", "东湖", "西陵", "河口", "桥北", "南屏", "新港", "北仑", "石门", "开元", "柳江", "高坪", "沙洲", "龙泉",
        "金台", "白塔",
    ),
    "road": (
        "建设", "解放", "人民", "滨江", "中山", "学府", "迎宾", "工农", "胜利", "环城", "文化", "幸福", "朝阳", "和平",
        "站前", "花园",
    ),
    "them_claimant": ("原告",),
    "them_defendant": ("被告",),
    "them_witness": ("证人", "[原告|被告]申请的证人", "出庭证人"),
    "them_counsel": ("代理人", "[原告|被告]的代理律师", "诉讼代理人"),
    "them_judge": ("原审法官", "一审审判员", "此前经办的法官"),
    "who_claimant": ("原告", "原告一方", "原告方"),
    "who_defendant": ("被告", "被告一方", "被告方"),
    "who_witness": ("证人", "[原告|被告]的证人", "其他证人"),
    "who_counsel": ("代理人", "[原告|被告]的代理律师", "双方代理人"),
    "who_judge": ("原审法官", "一审审判员", "原审审判员"),
    "matter_claim": ("本诉",),
    "matter_counterclaim": ("反诉",),
    "so_True": ("成立", "应予支持", "有理", "得到证明", "予以采纳"),
    "so_False": ("不成立", "应予驳回", "无理", "未获证明", "不予采纳"),
    "thing": words(
        "货款 定金 发票 收据 清单 样品 图纸 账册 信函 通知 草稿 协议 租约 保单 提货单 仓单 报价 估价 报告 "
        "照片 录音 短信 钥匙 门锁 屋顶 窗户 地面 水管 水泵 电机 吊机 货车 油罐 煤炭 木材 钢材 粮食 种子 "
        "饲料 布料 机床 模具 工具 轮胎 围墙 道路 码头泊位 过磅单 运单 许可证 担保函 存单 支票 订单 备忘录 "
        "日记 地图 合影 签名 印章 附件 副本 条款 价目表 进度表 验收单 记录 账目 库存 包装 标签 电表 仪器 "
        "零件 备件 锅炉 冷库 货架 托盘 雨棚 排水沟"
    ),
    "quality": words(
        "不齐 完好 受潮 陈旧 崭新 太贵 便宜 合格 不合格 清楚 模糊 真实 有误 有效 无效 完整 残缺 及时 太晚 "
        "太早 合理 过高 过低 普通 罕见 重要 次要 安全 危险 干燥 潮湿 松动 结实 破损 齐全 短缺 准确 粗糙 "
        "光滑 复杂 简单 公开 保密 可用 多余 足够 不足 正常 异常 空白 潦草 相符 不符 有用 无用"
    ),
    "heading_early": ("基本情况", "诉讼请求", "案件背景"),
    "heading_middle": ("证据与意见", "争议的问题", "审理查明"),
    "heading_far": ("交涉经过", "书面材料所见", "往来情况"),
    "heading_late": ("其他问题", "余下各点", "补充说明"),
    "heading_end": ("裁判结果", "结论", "处理意见"),
    "caption": (
        "{head}\n\n{sides}\n\n{bench}\n\n{appearances}\n\n{dates}",
        "{head}\n\n{bench}\n\n{dates}\n\n{sides}\n\n{appearances}", "{head}\n\n{sides}\n{appearances}\n\n{bench}\n{dates}",
    ),
    "remark": (
        "{thing}{quality}，{thing}则不然。", "{adverb}，{thing}{quality}。", "{adverb}没有人{done}{thing}。",
        "{this}{thing}{quality}。", "{thing}{done}过，{adverb}{quality}。",
    ),
    "adverb": words("此外 显然 当然 同时 随后 后来 起初 其实 毕竟 果然 至少 大概 或许 仍旧 曾经 已经 从此 不久 终于 因此 然而 不过 总之 另外 再者 即使 如此"),
    "this": ("这", "那", "其", "每件", "各", "某", "该", "有的", "任何", "另一", "上述", "前述", "此", "双方的", "那些"),
    "done": words(
        "查看 清点 核对 丢失 交付 签收 退还 提供 出示 引用 质疑 描述 辨认 记载 保管 移送 缴纳 预留 估价 分摊 抄送 印制 装订 翻阅 带来 借用 修理 "
        "更换 购买 出售 转让 租赁 使用 听说 讲到 记住 忘记 写下 打印 拍照 看守 归还"
    ),
    "signature": ("审判员　{J0.full}", "审判员：{J0.full}", "（审判员签名）{J0.full}"),
}
